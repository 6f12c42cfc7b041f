/* metrics.csv: which columns a file has, and which numbers. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>

#include "core/io/file.h"
#include "qgrad.h"
#include "tests/support/room.h"
#include "train/metrics.h"

#define HEADER "epoch,lr,train_loss,train_accuracy,test_loss,test_accuracy,images_per_second,seconds"
#define ROW    "1,0.1,2,0.5,2,0.5,100,1"

/* Logs of versions without the column are read as before; a digest has sixteen digits. */
static void a_digest_is_read_where_there_is_one(void **state)
{
    static const struct {
        const char *columns, *fields, *digest;      /* NULL: refused */
    } files[] = {
        { "", "", "" },
        { ",conv1.zeros,conv1.flipped", ",0,0", "" },
        { ",digest", ",0123456789abcdef", "0123456789abcdef" },
        { ",digest,conv1.zeros", ",1234567890123456,0", "1234567890123456" },
        { ",digest.zeros", ",0", "" },
        { ",conv1.zeros,digest", ",0,0", "" },
        { ",digest", ",0123456789abcde", NULL },
        { ",digest", ",0123456789abcdef0", NULL },
        { ",digest", ",0123456789abcdeg", NULL },
        { ",digest", ",", NULL },
        { ",digest", "", NULL },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char        text[512];
        qg__metrics m;
        qg_epoch    row;
        snprintf(text, sizeof text, HEADER "%s\n" ROW "%s\n", files[i].columns, files[i].fields);
        write_text("metrics.csv", text);
        const qg_status status = qg__metrics_read(&m, QG_BY_PATH, in_room("metrics.csv"), 1, 0);
        if (!files[i].digest) {
            assert_failed(status, QG_EFORMAT, "line 2 is not the row of epoch 1");
        } else {
            assert_ok(status);
            assert_true(qg__metrics_row(&m, 0, &row) && !qg__metrics_row(&m, 1, &row) && !qg__metrics_row(&m, -1, &row));
            assert_string_equal(row.digest, files[i].digest);
            assert_string_equal(m.last.digest, files[i].digest);
        }
        qg__metrics_end(&m);
    }
}

/* Rows that were written while the clock ran backwards take nothing from the sum, or from the mean rate. */
static void no_row_takes_time_back(void **state)
{
    qg__metrics m;
    write_text("metrics.csv", HEADER "\n" ROW "\n2,0.1,2,0.5,2,0.5,-200,-3600\n3,0.1,2,0.5,2,0.5,100,2\n");
    assert_ok(qg__metrics_read(&m, QG_BY_PATH, in_room("metrics.csv"), 3, 0));
    assert_true(m.seconds == 3 && qg__metrics_rate(&m) == 100);
    qg__metrics_end(&m);
}

/* An update may leave a scale of TTQ below its floor, which the next step or test raises it to (docs/defaults.md). */
static void scales_are_those_that_the_net_computes_with(void **state)
{
    qg__metrics      m;
    qg__code_stats   codes = { .rows = 0 };
    qg__learned_list list;
    qg_net          *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 4, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 2, .weight = qg_ttq((qg_ttq_spec){ .per_channel = true, .as_paper = true }) });
    assert_non_null(qg_net_build(net));
    assert_ok(qg__learned_begin(&list, net));
    qg_layer_slot(qg_net_layer(net, 0), QG_WEIGHT)->param[0]->value[1] = -0.5f;      /* wp */
    assert_ok(qg__metrics_begin(&m, false, &codes, &list));
    assert_ok(qg__metrics_add(&m, (qg_epoch){ .epoch = 1, .digest = "00112233445566ff" }, &codes, &list));
    assert_non_null(strstr(m.text, ",fc1.weight.wp.least,fc1.weight.wp.mean,fc1.weight.wp.greatest,"));
    assert_non_null(strstr(m.text, ",seconds,digest,fc1.weight."));
    assert_non_null(strstr(m.text, ",00112233445566ff,9.31322575e-10,0.5,1,1,1,1\n"));
    qg__metrics_end(&m);
    qg__learned_end(&list);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_read_where_there_is_one),
        cmocka_unit_test(no_row_takes_time_back),
        cmocka_unit_test(scales_are_those_that_the_net_computes_with),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
