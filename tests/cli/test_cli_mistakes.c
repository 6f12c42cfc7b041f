/* What users get wrong: each mistake has an exit status, and one line on stderr that names the culprit and, where there are
 * few, the alternatives. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/program.h"
#include "tests/support/tree.h"

#define LENET  "train --model lenet5 --data-dir set "
#define FOLDER "train --model lenet5 --data folder:8x8x1 --data-dir "
#define SWEEP  "sweep --model lenet5 --data-dir set "

/* A run that is finished, and folders of images with what can be wrong with them. */
static int set_up_mistakes(void **state)
{
    static const char unknown[] = "model = \"lenet5\"\nlearning-rate = 0.1\n", word[] = "model = \"lenet5\"\n\nlr = \"fast\"\n";
    /* A BMP file of 1x1 pixels of 24 bits. */
    static const unsigned char pixel[58] = { 'B', 'M', 58, [10] = 54, [14] = 40, [18] = 1, [22] = 1, [26] = 1, [28] = 24, [34] = 4 };
    if (set_up_tree(state)) return -1;
    assert_status("train --model lenet5 --data-dir set --batch 24 --epochs 1 --out run --json", 0);
    write_bytes(at("unknown.toml"), unknown, sizeof unknown - 1);
    write_bytes(at("word.toml"), word, sizeof word - 1);
    run_shell("echo 'epoch = 3' >near.toml");
    run_shell("echo 'init = \"run\"' >init.toml && echo 'budget = 5' >budget.toml");
    run_shell("printf 'model = \"lenet5\"\\nrecipe = \"twn\"\\n' >named.toml");
    run_shell("mkdir -p good/train/a good/train/b good/test/a good/test/b");
    write_bytes(at("good/train/a/1.bmp"), pixel, sizeof pixel);
    run_shell("cp good/train/a/1.bmp good/train/b && cp good/train/a/1.bmp good/test/a && cp good/train/a/1.bmp good/test/b");
    run_shell("cp -r good empty && mkdir empty/train/c empty/test/c");
    run_shell("cp -r good more && cp -r more/test/a more/test/c");
    run_shell("cp -r good text && echo hello >text/train/b/2.png");
    run_shell("cp -r good cut && head -c 50 good/train/a/1.bmp >cut/train/b/2.bmp");
    run_shell("mkdir -p flat/train bare dots packed pickles && cp good/train/a/1.bmp flat/train && cp -r good val && mv val/test val/val");
    run_shell("touch pickles/data_batch_1 pickles/test_batch pickles/batches.meta packed/train-images-idx3-ubyte.gz "
              "packed/t10k-images-idx3-ubyte.gz && for f in train t10k; do "
              "cp set/$f-images-idx3-ubyte dots/$f-images.idx3-ubyte; cp set/$f-labels-idx1-ubyte dots/$f-labels.idx1-ubyte; done");
    run_shell("cp -r good gone");
    assert_status("train --model 4C3-R-2 --data folder:8x8x1 --data-dir gone --batch 2 --epochs 1 --out far --json", 0);
    assert_status("export --run far --out far.qg", 0);
    run_shell("rm -r gone && head -c 100 far.qg >short.qg && head -c -100 run/last.safetensors >short.safetensors");
    run_shell("mkdir half results && cp -r good/train half && cp -r run lost && rm lost/last.safetensors && cp -r run bent && "
              "printf x | dd of=bent/best.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null");
    return 0;
}

static const struct {
    const char *line;
    int         status;
    const char *message;
} mistakes[] = {
    /* The command and its options. */
    { "trian", 2, "qgrad: unknown command trian; available: train, eval" },
    { "quantize --run x --model mlp", 2, "unknown option '--model'; see qgrad quantize --help" },
    { "train --zzzzz lenet5", 2, "unknown option '--zzzzz'; see qgrad train --help" },
    { "runs --zzzzz", 2, "unknown option '--zzzzz'; options: --sort, --csv, --json, --help" },
    { "train --bops", 2, "unknown option '--bops'; see qgrad train --help" },
    { "train -epochs", 2, "unknown option '-epochs'; did you mean --epochs?" },
    { "train --learning-rate=0.1", 2, "unknown option '--learning-rate=0.1'; did you mean --lr?" },
    { "train --early-stopping 3", 2, "; did you mean --patience?" },
    { "runs --wd 3", 2, "unknown option '--wd'; options: " },
    { "trian", 2, "see qgrad --help; did you mean train?" },
    { "train --modle lenet5", 2, "; did you mean --model?" },
    { "train --model lenet5 --weight_decay 0.1", 2, "; did you mean --weight-decay?" },
    { "train lenet5", 2, "unexpected argument 'lenet5'; did you mean --model lenet5?" },
    { LENET "--nesterov true", 2, "unexpected argument 'true'; --nesterov takes no value" },
    { LENET "--lr 0", 2, "--lr must be positive, not 0" },
    { LENET "--lr -0.1", 2, "--lr must be positive, not -0.1" },
    { LENET "--optimizer adma", 2, "--optimizer 'adma' is not one of sgd|adam|bop; did you mean adam?" },
    { "train", 2, "--model is missing; available: lenet5, lenet5-xnor" },
    { LENET "--epochs", 2, "--epochs needs a value" },
    { LENET "--epochs 2.5", 2, "--epochs '2.5' is not a whole number" },
    { LENET "--epochs -1", 2, "--epochs -1 is not in 0..100000" },
    { LENET "--lr fast", 2, "--lr 'fast' is not a number" },
    { LENET "--lr 0,1", 2, "--lr '0,1' is not a number; qgrad sweep takes lists" },
    { LENET "--seed 1..3", 2, "--seed '1..3' is not a whole number; qgrad sweep takes lists" },
    { LENET "--optimizer adamw", 2, "--optimizer 'adamw' is not one of sgd|adam|bop" },
    { LENET "--optimizer adam --momentum 0.9", 2, "--momentum is an option of sgd, not of adam" },
    { LENET "--schedule step", 2, "--schedule: step: needs at= or every=" },
    { LENET "--schedule step:at=0.8+0.5", 2, "--schedule: step: at has 0.5 after 0.8; its numbers must increase" },
    { LENET "--validation 100%", 2, "--validation: '100%' is neither a number of images nor a percentage below 100%" },
    { LENET "--validation 240", 2, "validation: 240 of 240 images, but the classes can spare at most" },
    { "summary --weight lsq:4", 2, "lsq: '4' is a value without its option, as in key=value; available: as, bits" },
    { "summary --weight lsq,bits=4", 2, "'lsq,bits=4' for weights; options follow a colon, as in lsq:key=value" },
    { "summary --layer conv1:weight=twn,conv2:weight=twn", 2, "are several layers; pass each by itself, first" },
    { "train --model 60C5-10 --data-dir set --whiten-patches conv1", 2, "whiten-patches: conv1 has 60 outputs, more than 50" },
    { LENET "--augment flp", 2, "--augment: augmentation: unknown option 'flp'; available: rotate" },
    { LENET "--budget 5min", 2, "--budget: '5min' is not a duration; write 90s, 50m, 1h" },

    /* Nets as text. */
    { "train --model lenet", 2, "--model: unknown model 'lenet'; available: lenet5" },
    { "train --model lenet", 2, "; did you mean lenet5?" },
    { "train --model 16C3-BN-X-10", 2, "net '16C3-BN-X-10': character 9: 'X' is no layer; available: 32C5" },
    { "train --model 2*(8C3-R-GAP-10", 2, "character 3: this bracket is not closed" },
    { "train --data mnist --model 8C3-R-GAP-7", 2, "character 11: the net ends with 7 outputs, but the data has 10 classes" },
    { "train --data mnist --model 8C3-R-MP40-10", 2, "character 7: a window of 40x40 is larger than its input" },

    /* Schemes. */
    { LENET "--weight twm", 2, "--weight: unknown scheme 'twm' for weights; available: float, twn" },
    { LENET "--weight TWN", 2, "; did you mean twn?" },
    { LENET "--weight ternary", 2, "; did you mean twn?" },
    { LENET "--weight xnornet", 2, "; did you mean xnor?" },
    { LENET "--schedule cos", 2, "constant, step, exponential, cosine, linear; did you mean cosine?" },
    { LENET "--weight twn:per_channel=yes", 2, "; did you mean per-channel?" },
    { LENET "--weight twn:per-channel=true", 2, "per-channel 'true' is not one of no|yes; did you mean yes?" },
    { "train --model lenet5 --data mnist:classes=0,1,2", 2, "--data: mnist: classes is '0,1' with a comma; write several numbers as 0+1+2" },
    { LENET "--weight ttq:threshold=0,05", 2, "--weight: ttq: threshold is '0,05' with a comma; write numbers with a point" },
    { LENET "--weight ttq:treshold=0.1", 2, "--weight: ttq: unknown option 'treshold'; available: as, threshold, rule" },
    { LENET "--weight fake_quant:bits=99", 2, "--weight: fake_quant: bits is 99, not in 2..16" },
    { LENET "--weight twn threshold=0.1", 2, "unexpected argument 'threshold=0.1'" },
    { LENET "--input twn", 2, "--input: twn is a scheme for weights, not for inputs; available: float, sign" },
    { LENET "--weight bop", 2, "--weight: sgd cannot train the scheme bop; pass --optimizer bop" },
    { LENET "--layer conv9:weight=twn", 2, "--layer: lenet5 has no layer 'conv9' with a weight; available: conv1, conv2, fc1, fc2" },
    { LENET "--quantize-after 5", 2, "--quantize-after: no input is quantized" },

    /* Images. */
    { "train --model lenet5 --data minst", 2, "--data: unknown data set 'minst'; available: mnist" },
    { "train --model lenet5 --data minst", 2, "; did you mean mnist?" },
    { "train --model lenet5 --data-dir absent", 1, "cannot open 'absent/train-images-idx3-ubyte': No such file or directory"
                                                    "; pass the directory of the data set as --data-dir" },
    { "train --model lenet5 --data cifar100", 1, "cannot open 'datasets/cifar100/train.bin': No such file or directory"
                                                 "; pass the directory of the data set as --data-dir" },
    { FOLDER "absent", 1, "cannot list 'absent/train': No such file or directory; pass the directory of the data set as --data-dir" },
    { "train --model lenet5 --data arrays:train=a,train-labels=b,test=c,test-labels=d", 1,
      "cannot open 'b': No such file or directory; '.' contains bare, " },
    { FOLDER "flat", 1, "'flat/train' has 1 file, such as 'flat/train/1.bmp', but no folder; each folder in it is a class and contains "
                        "the images" },
    { FOLDER "val", 1, "cannot list 'val/test': No such file or directory; 'val' contains train, val; the images are read from "
                       "train/CLASS and test/CLASS" },
    { FOLDER "good/train", 1, "cannot list 'good/train/train': No such file or directory; 'good/train' contains a, b; the images are read "
                              "from train/CLASS and test/CLASS" },
    { "train --model lenet5 --data-dir dots", 1, "cannot open 'dots/train-images-idx3-ubyte': No such file or directory; 'dots' contains "
      "train-images.idx3-ubyte, t10k-images.idx3-ubyte, t10k-labels.idx1-ubyte, train-labels.idx1-ubyte" },
    { "train --model lenet5 --data-dir packed", 1, "cannot open 'packed/train-images-idx3-ubyte': No such file or directory; 'packed' "
      "contains train-images-idx3-ubyte.gz, t10k-images-idx3-ubyte.gz; unpack the files that end in .gz" },
    { "train --model lenet5 --data-dir bare", 1, "cannot open 'bare/train-images-idx3-ubyte': No such file or directory; 'bare' is empty" },
    { "train --model lenet5 --data cifar10 --data-dir pickles", 1, "cannot open 'pickles/data_batch_1.bin': No such file or directory; "
      "'pickles' contains data_batch_1, batches.meta, test_batch; the binary version of CIFAR-10 is needed" },
    { "train --model lenet5 --data cifar100 --data-dir pickles", 1, "cannot open 'pickles/train.bin': No such file or directory" },
    { "train --model lenet5 --data folder --data-dir good", 2, "--data: folder: size is missing: height, width and channels" },
    { FOLDER "empty", 1, "'empty/train/c' contains no PNG, JPEG or BMP file; each folder in 'empty/train' is a class" },
    { FOLDER "more", 1, "'more/test' has 3 classes, 'more/train' has 2" },
    { FOLDER "text", 1, "'text/train/b/2.png' is not a PNG, JPEG or BMP file" },
    { FOLDER "cut", 1, "'cut/train/b/2.bmp'" },
    { FOLDER "half", 1, "cannot list 'half/test': No such file or directory" },
    { "train --model lenet5 --data arrays:train=a.npy --data-dir .", 2, "--data: arrays: train needs train-labels" },

    /* Runs, and files that a training starts from. */
    { LENET "--batch 24 --epochs 1 --out run", 1, "run already contains a run; --resume continues it, --force renames it" },
    { "train --resume --out run --lr 0.5", 2, "lr is 0.01 in the run, but 0.5 was requested; a run keeps its initial options; --init starts another from its weights" },
    { "train --resume", 2, "--resume: which run? pass its directory with --out" },
    { "train --resume --out absent", 2, "absent contains no run to resume, and --model is missing" },
    { "train --resume --out lost", 1, "lost cannot be resumed: its last.safetensors is missing" },
    { LENET "--resume --force", 2, "--resume and --force exclude each other" },
    { LENET "--out unknown.toml", 1, "unknown.toml: Not a directory" },
    { LENET "--init absent", 1, "--init: cannot open 'absent': No such file or directory" },
    { LENET "--weight lsq --init run --model mlp", 1, "--init: " },
    { LENET "--init short.safetensors", 1, "--init: 'short.safetensors' is truncated: " },
    { "infer short.qg", 1, "short.qg: not a packed net, or one that is truncated" },
    { LENET "--distil temperature=4", 2, "distil: the teacher is missing; pass its run with --teacher" },
    { "train --recipe lenet", 2, "recipe: examples/recipes/lenet.toml does not exist; available: plain, twn" },
    { "train --config unknown.toml", 2, "unknown.toml:2: unknown key 'learning-rate'; available: model" },
    { "train --config near.toml", 2, "near.toml:1: unknown key 'epoch'; available: model" },
    { "train --config near.toml", 2, "; did you mean epochs?" },
    { "train --config near.toml", 2, "distil, init-recipe, reproduces, reported, provenance" },
    { "train --config init.toml", 2, "an option of the command line, not a key; a recipe has init-recipe" },
    { "train --config budget.toml", 2, "toml:1: 'budget' is an option of the command line, not a key" },
    { "train --config named.toml", 2, "recipe only notes where a run came from; to begin with its options, "
      "pass --recipe twn" },
    { "train --config word.toml", 2, "word.toml:3: lr takes a value without quotes" },
    { "runs absent", 1, "absent: No such file or directory" },
    { "runs run --sort colour", 2, "sort: there is no column 'colour'; available: run, state" },

    /* Sweeps. */
    { SWEEP "--seed 3..1", 2, "--seed: '3..1' is not a range; write 1..3, from the lower to the higher" },
    { SWEEP "--lr 0.1,0.10", 2, "--lr: 0.1 is given twice" },
    { SWEEP "--lr 0.1,0.2 --array 9", 2, "array: 9 is not in 1..2, the numbers of the combinations" },
    { SWEEP "--weight lsq:bits=2,4,8", 2, "lsq: bits is '2,4' with a comma; it is one number; a list repeats the name, a:bits=2,a:bits=4" },
    { SWEEP "--seed 1-3", 2, "seed: '1-3' is not a range; write 1..3, from the lower to the higher" },
    { SWEEP "--weight ttq:threshold=0,05", 2, "--weight: ttq: threshold is '0,05' with a comma; write numbers with a point" },
    { SWEEP "--weight twn,tnw", 2, "--weight: unknown scheme 'tnw' for weights" },

    /* Trained runs. */
    { "predict --run run", 2, "the images are missing: files or folders" },
    { "predict good", 2, "--run is missing: the directory of a run, or a checkpoint" },
    { "infer x.qg --best", 2, "--best chooses the weights of --run, which is missing" },
    { "predict --packed x.qg --best x.png", 2, "--best chooses the weights of --run, and a packed net has one set" },
    { "plot --role weight --out figures", 2, "--role needs a scheme" },
    { "eval run --cache 1G", 2, "cache: only images of a folder are decoded when they are needed" },
    { "predict run good", 2, "--run is missing; did you mean --run run?" },
    { "predict --run run absent.png", 1, "cannot open 'absent.png': No such file or directory" },
    { "predict --run run unknown.toml", 1, "'unknown.toml' is not a PNG, JPEG or BMP file" },
    { "eval --run absent", 1, "there is no run 'absent': no such directory or checkpoint" },
    /* As from another directory, if that of the images is relative. */
    { "eval --run far", 1, "cannot list 'gone/test': No such file or directory; pass the directory of the data set as --data-dir" },
    { "train --resume --out far --epochs 2", 1, "cannot list 'gone/train': No such file or directory; pass the directory of" },
    { "quantize --run far --weight twn --out q", 1, "cannot list 'gone/train': No such file or directory; pass the directory of" },
    { "infer --packed far.qg --run far", 1, "cannot list 'gone/test': No such file or directory; pass the directory of" },
    { "infer --packed far.qg", 2, "the data set folder needs --data-dir, the directory that contains train and test" },
    { "eval --run good", 1, "'good' contains no run: no config.toml and no checkpoint" },
    { "eval --run bent --best", 1, "bent/best.safetensors" },
    { "eval --run run --worst many", 2, "--worst 'many' is not a whole number" },
    { "quantize --run run --weight float", 2, "nothing to quantize: this changes no layer of run; pass another "
      "scheme with --weight, --input or --layer" },
    { "export", 2, "--run is missing: the directory of a run, or a checkpoint" },
    { "export --run run", 2, "-o FILE is missing: the file to write" },
    { "export --run run --out net --to onxx", 2, "--to 'onxx' is not one of " },
    { "export --run run --out net.onxx", 2, "-o net.onxx: names end in .qg, .onnx or .c; for another one pass --to packed, onnx or c" },
    { "export --run run --out absent/net", 1, "cannot write 'absent/net': No such file or directory" },
    { "infer --packed unknown.toml", 1, "unknown.toml: not a packed net" },
    { "inspect", 2, "the run directory is missing; usage: qgrad inspect DIR" },
    { "explain Twn", 2, "; did you mean twn?" },
    { "plot twn --out twn.png", 2, "'twn.png': the name of a picture of qgrad ends in .svg" },
    { "report run --out page.pdf", 2, "'page.pdf': the name of a page of qgrad report ends in .html" },
    { "plot twn --out twn.svg --csv", 2, "--out writes pictures, and takes neither --csv nor --json" },
    { "explain twm", 2, "unknown scheme 'twm'; available: float, twn" },
    { "results --add run", 2, "run: was not trained with --recipe, so it has no row in the table" },
};

/* No mistake leaves a directory behind, or changes a run. */
static void test_every_mistake_is_named(void **state)
{
    run_shell("ls -R . >before.list && cp -r run kept");
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        assert_refuses(mistakes[i].line, mistakes[i].status, mistakes[i].message);
    run_shell("diff -r kept run && rm -r kept && ls -R . >after.list && sed -i /list/d before.list after.list && "
              "sed -i '/^out$/d; /^err$/d' before.list after.list && diff before.list after.list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mistake_is_named),
    };
    return cmocka_run_group_tests(tests, set_up_mistakes, tear_down);
}
