/* qgrad runs: the runs below a directory. */
#include "cli/print.h"
#include "cli/run/listing.h"
#include "cli/run/run_spec.h"

static qg_status find(listing *all, const char *where, const config *asked)
{
    char dir[QG__PATH_BYTES];
    if (config_flag(asked, "json") && config_flag(asked, "csv"))
        return qg_fail(QG_EARG, "--csv and --json exclude each other");
    qg_status status = run_directory("runs", where, dir);
    if (!status) status = listing_walk(all, dir);
    return status ? status : listing_sort(all, config_text(asked, "sort"));
}

static qg_status print(const listing *all, const char *where, const config *asked)
{
    if (config_flag(asked, "json")) {
        qg__json j = qg__json_begin(stdout);
        listing_put(&j, all);
        qg__json_end(&j);
    } else if (config_flag(asked, "csv")) {
        listing_print_csv(all, stdout);
    } else if (all->count) {
        return listing_print(all, stdout);
    } else {
        print_safe(stdout, "no runs in %s\n", where);
    }
    return QG_OK;
}

static int runs_main(config *asked)
{
    listing     all    = { 0 };
    const char *where  = asked->word ? asked->word : "runs";
    qg_status   status = find(&all, where, asked);
    if (!status) status = print(&all, where, asked);
    listing_free(&all);
    return status ? print_failure(asked) : EXIT_DONE;
}

static const verb_option own_options[] = {
    { "sort" }, { "csv" }, { NULL }
};

const verb runs_verb = {
    .name = "runs", .about = "List runs: their state, their accuracies, and the options in which they differ",
    .usage = "runs [DIR] [options]", .run = runs_main, .has_operand = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
