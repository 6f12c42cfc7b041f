#!/bin/sh
# From folders of images to a quantized net that tells their classes: a net of one's own with 1-bit weights and 2-bit inputs,
# validation images, a sweep of three rates, fine-tuning to three other classes, a look at the mistakes, single files.
# The images are 6,000 of CIFAR-10, exported as PNG files.  docs/own-images.md explains each step and shows the output.
#     sh examples/own_images.sh [DIR]          default: runs/own-images
#     SET=cifar10|sample  TRAIN=500 TEST=100 (images per class)  EPOCHS=8  QGRAD=build/qgrad  EXAMPLES=build/examples
set -eu
dir=${1:-runs/own-images}
set=${SET:-cifar10}
epochs=${EPOCHS:-8}
case $dir in *[[:space:],]*) echo "own_images.sh: DIR has a space or a comma: $dir" >&2; exit 2 ;; esac
qgrad=${QGRAD:-build/qgrad}
examples=${EXAMPLES:-build/examples}
case $set in
cifar10) size=32x32x3 three='cat dog horse' ;;
sample) size=28x28x1 three='sandal bag boot' ;;
*) echo "own_images.sh: SET is cifar10 or sample, not $set" >&2; exit 2 ;;
esac

# Shows a command and runs it.
run() {
    echo
    echo "\$ $*"
    "$@"
}

# 1. Images: DIR/images/train/CLASS/*.png and DIR/images/test/CLASS/*.png.
if [ ! -e "$dir/images" ]; then
    mkdir -p "$dir"
    rm -rf "$dir/images.part"
    run "$examples/export_images" "$set" "$dir/images.part" "${TRAIN:-500}" "${TEST:-100}"
    mv "$dir/images.part" "$dir/images"
fi

# 2. A net as text, and a sweep: three learning rates, of which the validation images choose one.
net() { echo "32C3-BN-R-32C3-BN-R-MP2-64C3-BN-R-64C3-BN-R-MP2-128C3-BN-R-GAP-$1"; }
run "$qgrad" summary --model "$(net 10)" --image $size --weight dorefa:bits=1 --input dorefa:bits=2 --first-last float
run "$qgrad" sweep --model "$(net 10)" --data folder:$size --data-dir "$dir/images" --normalise channel --augment pad=2,flip \
    --weight dorefa:bits=1 --input dorefa:bits=2 --first-last float --optimizer adam --lr 0.001,0.003,0.01 \
    --schedule cosine:factor=0.01 --batch 50 --epochs "$epochs" --validation 10% --out "$dir/sweep"
run "$qgrad" runs "$dir/sweep" --sort valid
best=$("$qgrad" runs "$dir/sweep" --sort valid --csv | sed -n '2s/,.*//p')

# 3. Where it is wrong.
run "$qgrad" eval --run "$best" --best --confusion --worst 3

# 4. Three classes alone, from the weights of the best run; only the last layer starts anew.
for split in train test; do
    mkdir -p "$dir/three/$split"
    for class in $three; do ln -sfn "../../images/$split/$class" "$dir/three/$split/$class"; done
done
resume=
[ ! -e "$dir/tuned/config.toml" ] || resume=--resume
run "$qgrad" train --model "$(net 3)" --data folder:$size --data-dir "$dir/three" --normalise channel --augment pad=2,flip \
    --weight dorefa:bits=1 --input dorefa:bits=2 --first-last float --optimizer adam --lr 0.001 --schedule cosine:factor=0.01 \
    --batch 50 --epochs "$epochs" --validation 10% --init "$best" --init-except fc1 --out "$dir/tuned" $resume
run "$qgrad" eval --run "$dir/tuned" --best --confusion

# 5. Single files, of any size and colours.
set -- $(for class in $three; do find "$dir/images/test/$class" -name '*.png' | sort | head -n 2; done)
run "$qgrad" predict --run "$dir/tuned" --best "$@"
