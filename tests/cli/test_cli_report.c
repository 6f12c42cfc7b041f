/* The pages of runs: train, report. */
#include "tests/support/testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/program.h"

enum { PAGE_BYTES = 1 << 20 };      /* a page is smaller */

static char page[PAGE_BYTES];

static void read_page(const char *name)
{
    FILE *in = fopen(at(name), "rb");
    assert_non_null(in);
    const size_t n = fread(page, 1, sizeof page - 1, in);
    fclose(in);
    assert_true(n > 0 && n < sizeof page - 1);
    page[n] = '\0';
}

static void assert_page(const char *part)
{
    if (!strstr(page, part)) fail_msg("the page lacks %s", part);
}

static void assert_no_page(const char *part)
{
    if (strstr(page, part)) fail_msg("the page has %s", part);
}

static int occurrences(const char *part)
{
    int n = 0;
    for (const char *found = page; (found = strstr(found, part)); found++) n++;
    return n;
}

/* Every element is closed in order, but for those that HTML does not close. */
static void assert_well_formed(void)
{
    char open[32][16];
    int  depth = 0;
    for (const char *p = page; (p = strchr(p, '<')); p++) {
        const char  *end    = strchr(p, '>');
        const bool   closes = p[1] == '/';
        const size_t n      = strcspn(p + 1 + closes, " />");
        if (p[1] == '!' || !strncmp(p + 1, "meta", 4) || !strncmp(p + 1, "br", 2) || !strncmp(p + 1, "img", 3)) continue;
        assert_true(end && n > 0 && n < sizeof open[0]);
        if (end[-1] == '/') continue;
        if (closes) {
            assert_true(depth > 0);
            depth--;
            if (strncmp(open[depth], p + 2, n) || open[depth][n]) fail_msg("</%.*s> closes <%s>", (int)n, p + 2, open[depth]);
        } else {
            assert_true(depth < 32);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)n, p + 1);
        }
    }
    assert_int_equal(depth, 0);
}

/* Nothing is loaded and nothing is run. */
static void assert_alone(void)
{
    static const char *const foreign[] = { "<script", "<link", "http:", "https:", "@import", "javascript:", " onload", "url(" };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) assert_no_page(foreign[i]);
}

static void test_training_keeps_a_page(void **state)
{
    assert_status(TRAIN "--weight ttq --input dorefa:bits=2 --epochs 3 --out @/run --json", 0);
    read_page("run/report.html");
    assert_well_formed();
    assert_alone();
    static const char *const parts[] = { "<title>", " of 3</b>", "<h3>conv1</h3>", "<h3>fc2</h3>", "ttq, 2 bits; input dorefa, 2 bits<", ": fraction of each level",
                                         "weight.wp", "Confusion", "Quantized inputs", "qgrad train --config", "weight = &quot;ttq&quot;" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_page(parts[i]);
    assert_true(strlen(page) < 150000);
}

static void test_training_names_the_page(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/named", 0);
    assert_stdout("/named\npage           ");
    assert_stdout("/named/report.html\n");
    assert_status(TRAIN "--epochs 1 --budget 0 --out @/unnamed", 3);
    assert_null(strstr(last.out, "page "));
}

/* The command is one for a shell, and a long line of the configuration is whole. */
static void test_the_page_says_how_to_train_again(void **state)
{
    enum { LAYERS = 20 };       /* each with an exception of some sixty letters in one line */
    char config[4096], whole[4096] = "layer = [";
    strcpy(config, whole);
    for (int i = 1; i <= LAYERS; i++) {
        const char *end = i < LAYERS ? ", " : "]\n";
        const size_t n = strlen(config), w = strlen(whole);
        snprintf(config + n, sizeof config - n, "\"conv%d:weight=fake_quant:bits=4,range=observed,per-channel=yes\"%s", i, end);
        snprintf(whole + w, sizeof whole - w, "&quot;conv%d:weight=fake_quant:bits=4,range=observed,per-channel=yes&quot;%s", i, end);
    }
    write_bytes(at("layers.toml"), config, strlen(config));
    assert_status(TRAIN "--model 20*(2C1)-10 --config @/layers.toml --epochs 1 --out @/it's --json", 0);
    read_page("it's/report.html");
    assert_page("<pre>qgrad train --config &#39;/");
    assert_page("/it&#39;\\&#39;&#39;s/config.toml&#39; --out NEW-DIRECTORY</pre>");
    assert_page(whole);
}

/* A page that is made later shows the same as the one that training kept. */
static void test_report_makes_the_same_page(void **state)
{
    static char kept[PAGE_BYTES];
    assert_status(TRAIN "--epochs 2 --out @/again --json", 0);
    read_page("again/report.html");
    strcpy(kept, page);
    assert_status("report @/again", 0);
    assert_stdout("again/report.html\n");
    read_page("again/report.html");
    assert_string_equal(page, kept);

    /* Images that have moved. */
    run_shell("mv @/set @/moved");
    assert_status("report @/again --out @/none.html", 0);
    assert_stderr("no confusions and inputs: cannot open");
    assert_status("report @/again --data-dir @/moved --out @/moved.html", 0);
    run_shell("mv @/moved @/set");
    read_page("moved.html");
    assert_page("Confusion");
}

static void test_after_each_epoch_the_page_is_new(void **state)
{
    assert_status(TRAIN "--epochs 2 --batch 24 --out @/grows --budget 0 --json", 3);
    assert_int_equal(access(at("grows/report.html"), F_OK), -1);
    assert_refuses("report @/grows", 1, "no epoch is finished yet");
    pid_t child = start_endless(ENDLESS "--out @/endless");
    kill(child, SIGTERM);
    finish(child);
    read_page("endless/report.html");
    assert_page("Not finished: ");
}

static void test_runs_are_laid_over_each_other(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/one --json", 0);
    assert_status(TRAIN "--weight binary --epochs 2 --validation 25% --out @/two --json", 0);
    assert_status("report @/one --out @/both.html @/two", 0);
    read_page("both.html");
    assert_well_formed();
    assert_alone();
    assert_page("<h1>2 runs</h1>");
    assert_page("conv1: codes that flipped");
    assert_page(">one</text>");             /* in legends, without the directories of both */
    assert_page(">two</text>");
    assert_int_equal(occurrences("<h3>conv1</h3>"), 2);
    assert_page("of 60 test images right");
}

/* As result.json has it. */
static double accuracy_of(const char *run)
{
    char name[64];
    snprintf(name, sizeof name, "%s/result.json", run);
    FILE *in = fopen(at(name), "rb");
    assert_non_null(in);
    last.out[fread(last.out, 1, sizeof last.out - 1, in)] = '\0';
    fclose(in);
    return last_number("test_accuracy");
}

/* Runs that differ in their seeds alone are one curve with a band, and one row with mean and deviation. */
static void test_seeds_are_one_curve(void **state)
{
    double sum = 0, squares = 0;
    char   cell[64];
    for (int seed = 9; seed <= 11; seed++) {
        assert_runs(TRAIN "--epochs 2 --seed %d --out @/ttt-seed-%d --json", seed, seed);
        assert_runs(TRAIN "--epochs 2 --weight binary --seed %d --out @/bin%d --json", seed, seed);
    }
    for (int seed = 9; seed <= 11; seed++) {
        char run[32];
        snprintf(run, sizeof run, "ttt-seed-%d", seed);
        sum += accuracy_of(run);
    }
    for (int seed = 9; seed <= 11; seed++) {
        char run[32];
        snprintf(run, sizeof run, "ttt-seed-%d", seed);
        squares += (accuracy_of(run) - sum / 3) * (accuracy_of(run) - sum / 3);
    }
    snprintf(cell, sizeof cell, "<td>%.2f &plusmn; %.2f %%</td>", 100 * sum / 3, 100 * sqrt(squares / 2));
    assert_status("report @/ttt-seed-9 @/bin9 @/ttt-seed-10 @/ttt-seed-11 @/bin11 @/bin10 --out @/seeds.html", 0);
    read_page("seeds.html");
    assert_well_formed();
    assert_alone();
    assert_page("<h1>6 runs</h1>");
    assert_page("/ttt-seed (3 seeds)</td>");
    assert_page("/bin (3 seeds)</td>");
    assert_page(">ttt-seed (3 seeds)</text>");
    assert_page(cell);
    assert_int_equal(occurrences("&plusmn;"), 2 * 2);       /* last and best; no run has validation images */
    assert_true(occurrences("<path class=\"qg-s qg-f1\"") > 2 && occurrences("<path class=\"qg-s qg-f2\"") > 2);
    assert_int_equal(occurrences("<h3>conv1</h3>"), 6);
    /* Another number of epochs is another training. */
    assert_runs(TRAIN "--epochs 3 --seed 12 --out @/ttt-seed-12 --json");
    run_shell("cp -r @/ttt-seed-9 @/twin");
    assert_status("report @/ttt-seed-9 @/ttt-seed-10 @/ttt-seed-12 @/twin --out @/seeds.html", 0);
    read_page("seeds.html");
    assert_page("/twin</td>");
    assert_page("/ttt-seed (2 seeds)</td>");
    assert_page("/ttt-seed-12</td>");
}

/* Of many runs, the first eight kinds are shown one by one, too. */
static void test_any_number_of_runs(void **state)
{
    char line[1024] = "report --out @/many.html";
    for (int i = 0; i < 10; i++) {
        assert_runs(TRAIN "--epochs 1 --lr 0.0%d --out @/lr%d --json", i + 11, i);
        snprintf(line + strlen(line), sizeof line - strlen(line), " @/lr%d", i);
    }
    assert_status(line, 0);
    read_page("many.html");
    assert_well_formed();
    assert_page("<h1>10 runs</h1>");
    assert_int_equal(occurrences("<h3>conv1</h3>"), 8);
    assert_page("Each of the others has a page of its own");
    assert_page(">lr9</text>");
    assert_page("<path class=\"qg-d qg-l1\"");             /* the ninth has the first colour again, dashed */
    assert_no_page("training dashed");
    assert_true(strlen(page) < 700000);
}

/* While the test images of a run with validation have not been read, a report does not read them. */
static void test_the_test_images_stay_unread(void **state)
{
    pid_t child = start_endless(ENDLESS "--validation 25% --out @/held");
    kill(child, SIGTERM);
    finish(child);
    read_page("held/report.html");
    assert_page("of 60 validation images right");
    assert_status("report @/held --out @/held.html", 0);
    assert_stderr("the test images are read when the run is complete");
    read_page("held.html");
    assert_no_page("images right");
    assert_well_formed();
}

static void test_a_page_that_cannot_be_written_is_a_warning(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/plain --json", 0);
    assert_status(TRAIN "--epochs 2 --budget 0 --out @/blocked --json", 3);
    assert_int_equal(mkdir(at("blocked/report.html"), 0777), 0);
    assert_status("train --resume --out @/blocked --json", 0);
    assert_stderr("warning: report.html is not up to date: ");
    assert_int_equal(rmdir(at("blocked/report.html")), 0);
    assert_same_run("plain", "blocked");
}

/* Each chart of the page, as it stands there, with its colours. */
static void test_charts_come_as_files(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/talk --json", 0);
    assert_status("report @/talk --out @/talk.html --charts @/deck", 0);
    read_page("talk.html");
    const int charts = occurrences("<svg class=\"qg\"");
    assert_true(charts > 6);
    run_shell("ls @/deck | grep -c svg | grep -qx %d", charts);
    for (int i = 0; i < 2; i++) {
        read_page(i ? "deck/04-conv1-latent-weights.svg" : "deck/01-accuracy.svg");
        assert_well_formed();
        assert_int_equal(strncmp(page, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=", 48), 0);
        assert_page("prefers-color-scheme:dark");
        assert_page(i ? "conv1: latent weights</text>" : "Accuracy</text>");
        assert_int_equal(occurrences("<svg"), 1);
    }
    assert_status("report @/talk --out @/talk.html --charts @/deck", 0);
    run_shell("echo mine >@/deck/02-loss.svg");
    assert_refuses("report @/talk --out @/talk.html --charts @/deck", 1, "loss.svg' is not a picture");
}

static void test_what_is_no_run_is_refused(void **state)
{
    assert_refuses("report", 2, "the run directory is missing");
    assert_refuses("report @/none", 1, "none");
    assert_refuses("report @/one/best.safetensors", 2,
                   "one/best.safetensors: a page shows the last weights; name the directory of the run");
    assert_refuses("eval --run @/one/last.safetensors --best", 2, "--best: ");
    assert_refuses("report @/one --json --out /dev/stdout", 2,
                   "--json and --out /dev/stdout exclude each other");
    assert_status("report @/one --json", 0);
    assert_stdout("{\"page\":\"");
    assert_stdout("/one/report.html\",\"runs\":[\"");
    assert_status("quantize --run @/one --input fake_quant --out @/made", 0);   /* without training */
    assert_status("report @/made --out @/made.html", 0);
    assert_refuses("report @/set", 1, "set");
    assert_status(TRAIN "--epochs 1 --out @/torn --json", 0);
    run_shell("echo 2,x >> @/torn/metrics.csv");
    assert_refuses("report @/torn", 1, "metrics.csv: line 3, ");
    run_shell("sed -i.old '1s/^epoch/number/' @/torn/metrics.csv");
    assert_refuses("report @/torn", 1, "metrics.csv: has no column 'epoch'");
}

/* --- codes in the terminal ------------------------------------------------------------------- */

static void test_watch_prints_flips_and_zeros(void **state)
{
    assert_status(TRAIN "--epochs 2 --watch --out @/watched --json", 0);
    assert_stderr("\n  conv1 ");
    assert_stderr(" % flipped ");
    assert_stderr(" % zeros");
    assert_status(TRAIN "--weight float --epochs 1 --watch --out @/floats --json", 0);
    assert_null(strstr(last.err, "flipped"));
}

static void test_inspect_draws_histograms(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/drawn --json", 0);
    assert_status("inspect @/drawn --histogram", 0);
    assert_stdout("####");
    assert_stdout("  -> 0\n");
    assert_status("inspect @/drawn --histogram --json", 0);
    cJSON       *j     = parse();
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(j, "layers"), 0), *h = cJSON_GetObjectItem(layer, "histogram");
    const cJSON *count = cJSON_GetObjectItem(h, "counts");
    double       sum   = 0;
    for (int i = 0; i < cJSON_GetArraySize(count); i++) sum += cJSON_GetArrayItem(count, i)->valuedouble;
    assert_true(sum == number(layer, "weights"));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(h, "edges")), cJSON_GetArraySize(count) + 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(h, "thresholds")), 2);
    cJSON_Delete(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_keeps_a_page),
        cmocka_unit_test(test_training_names_the_page),
        cmocka_unit_test(test_the_page_says_how_to_train_again),
        cmocka_unit_test(test_report_makes_the_same_page),
        cmocka_unit_test_teardown(test_after_each_epoch_the_page_is_new, end_background),
        cmocka_unit_test(test_runs_are_laid_over_each_other),
        cmocka_unit_test(test_seeds_are_one_curve),
        cmocka_unit_test(test_any_number_of_runs),
        cmocka_unit_test_teardown(test_the_test_images_stay_unread, end_background),
        cmocka_unit_test(test_a_page_that_cannot_be_written_is_a_warning),
        cmocka_unit_test(test_charts_come_as_files),
        cmocka_unit_test(test_what_is_no_run_is_refused),
        cmocka_unit_test(test_watch_prints_flips_and_zeros),
        cmocka_unit_test(test_inspect_draws_histograms),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
