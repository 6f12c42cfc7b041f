/* qgrad export: a run's net as a file for other programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/print.h"
#include "cli/run/output.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/io/number.h"
#include "layers/export/export.h"
#include "layers/layer.h"

/* What output_check takes for a file of the format. */
static const output_kind kinds[] = { [QG_EXPORT_PACKED] = OUTPUT_PACKED, [QG_EXPORT_ONNX] = OUTPUT_ONNX,
                                     [QG_EXPORT_C] = OUTPUT_C };

typedef struct exporter {
    config        *asked;
    qg_run        *run;
    qg_run_export  of;
    size_t         net_bytes, bytes;
    size_t         constants, memory;           /* of a net in C */
} exporter;

static qg_export_format format_of(const exporter *e) { return (qg_export_format)config_word(e->asked, "to"); }

/* The format that the name of a file asks for; NULL: one that export does not write. */
static const char *format_for(const char *path)
{
    static const char *const packed[] = { ".qg", ".qgrad", ".bin" };
    const char *suffix = output_suffix(path);
    if (!suffix) return "packed";
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (!strcasecmp(suffix, packed[i])) return "packed";
    return !strcasecmp(suffix, ".onnx") ? "onnx" : !strcasecmp(suffix, ".c") ? "c" : NULL;
}

/* Without --to. */
static qg_status choose_format(exporter *e)
{
    const char *path = config_text(e->asked, "out"), *format = format_for(path);
    if (!format)
        return qg_fail(QG_EARG, "-o %s: names end in .qg, .onnx or .c; for another one pass --to packed, "
                       "onnx or c", path);
    return config_set(e->asked, "to", format);
}

static qg_status configure(exporter *e)
{
    if (!config_text(e->asked, "run")) return qg_fail(QG_EARG, "--run is missing: the directory of a run, or a checkpoint");
    if (!config_text(e->asked, "out")) return qg_fail(QG_EARG, "-o FILE is missing: the file to write");
    if (!config_text(e->asked, "to") && choose_format(e)) return qg_errcode();
    if (format_of(e) != QG_EXPORT_ONNX && !strcmp(config_text(e->asked, "input-layout"), "nchw"))
        return qg_fail(QG_EARG, "--input-layout nchw needs --to onnx");
    const qg_status status = output_check(config_text(e->asked, "out"), kinds[format_of(e)]);
    if (status) return status;
    e->run = run_open(e->asked);
    return e->run ? QG_OK : qg_errcode();
}

/* A file of C says in a comment what it takes. */
static qg_status read_sizes(exporter *e, const char *text)
{
    size_t      unpacked = 0;
    const char *line = strstr(text, " bytes of constants, ");
    while (line && line > text && line[-1] != '\n') line--;
    if (line && sscanf(line, "/* %zu bytes of constants, %zu of memory and %zu", &e->constants, &e->memory, &unpacked) == 3) {
        e->memory += unpacked;
        return QG_OK;
    }
    return qg_fail(QG_ESTATE, "the file does not say what it takes");
}

static qg_status write_file(exporter *e)
{
    unsigned char *file;
    e->of.spec.format = format_of(e);
    e->of.spec.nchw   = !strcmp(config_text(e->asked, "input-layout"), "nchw");
    qg_status status  = qg_net_packed_bytes(qg_run_net(e->run), &e->net_bytes);
    if (!status) status = qg_export_bytes(qg_run_net(e->run), e->of.spec, &file, &e->bytes);
    if (status) return status;
    if (format_of(e) == QG_EXPORT_C) status = read_sizes(e, (const char *)file);
    if (!status) status = output_write(config_text(e->asked, "out"), kinds[format_of(e)], file, e->bytes);
    free(file);
    return status;
}

/* Layers that compute in floats only because of their inputs: their weights are quantized, or nothing is.  But for the first,
 * since images are floats in most nets.  of: the layers with weights. */
static int count_float_inputs(const qg_net *net, int *of)
{
    int  coded = 0, any = 0;
    bool quantized = false;
    *of = 0;
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer      *l    = qg_net_layer(net, i);
        const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT), *x = qg_layer_reads(l);
        const bool     codes = slot && slot->q.scheme, floats = !x || !x->q.scheme;
        quantized = quantized || codes || !floats;
        if (!l->after || !slot || !slot->of) continue;
        *of += 1;
        any += floats;
        coded += floats && codes;
    }
    return quantized ? coded : any;
}

static void print(const exporter *e)
{
    const size_t floats = qg_net_float_bytes(qg_run_net(e->run));
    int          products, float_inputs = count_float_inputs(qg_run_net(e->run), &products);
    if (config_flag(e->asked, "json")) {
        qg__json j = qg__json_begin(stdout);
        qg__json_path(&j, "run", qg_run_directory(e->run));
        qg__json_text(&j, "file", run_file_name(e->run));
        qg__json_text(&j, "to", config_text(e->asked, "to"));
        qg__json_path(&j, "out", config_text(e->asked, "out"));
        qg__json_integer(&j, "float_bytes", floats);
        qg__json_integer(&j, "packed_bytes", e->net_bytes);
        qg__json_integer(&j, "file_bytes", e->bytes);
        if (format_of(e) == QG_EXPORT_C) qg__json_integer(&j, "constant_bytes", e->constants);
        if (format_of(e) == QG_EXPORT_C) qg__json_integer(&j, "memory_bytes", e->memory);
        qg__json_flag(&j, "float_inputs", float_inputs > 0);
        qg__json_text(&j, "digest", e->of.digest);
        qg__json_end(&j);
        return;
    }
    print_safe(stdout, "run            %s\n", qg_run_file(e->run));
    print_safe(stdout, "file           %s, %zu bytes\n", config_text(e->asked, "out"), e->bytes);
    char         ratio[QG_NUMBER_BYTES];
    const bool   packed = format_of(e) == QG_EXPORT_PACKED, in_c = format_of(e) == QG_EXPORT_C;
    const size_t net    = packed ? e->net_bytes : in_c ? e->constants : e->bytes;
    printf("net            %zu bytes, %zu as float: %s\n", net, floats, qg__number_ratio(ratio, net, floats));
    if (in_c) printf("memory         %zu bytes, and the stack\n", e->memory);
    if (packed) printf("notes          %zu bytes: normalisation, classes, where it comes from\n", e->bytes - net);
    printf("digest         %s\n", e->of.digest);
    if (packed && float_inputs)
        print_safe(stdout, "inputs         floats in %d of %d layers after the first, which take several times as long as codes "
                   "of 8 bits: qgrad quantize --run %s\n", float_inputs, products, qg_run_directory(e->run));
}

static int export_run(exporter *e)
{
    if (configure(e) || qg_run_export_of(e->run, &e->of) || write_file(e)) return print_failure(e->asked);
    if (!output_is_stdout(config_text(e->asked, "out"))) print(e);
    return EXIT_DONE;
}

static int export_main(config *asked)
{
    exporter  e      = { .asked = asked };
    const int status = export_run(&e);
    qg_run_close(e.run);
    return status;
}

static const verb_option own_options[] = {
    { "out", "the file, also -o; required" }, { "run" }, { "best" }, { "to" }, { "input-layout" }, { NULL }
};

const verb export_verb = {
    .name = "export", .about = "Write a run's net as a file for other programs", .usage = "export RUN -o FILE [options]",
    .run = export_main, .has_operand = true, .operand = "run",
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
