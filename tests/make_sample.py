#!/usr/bin/python3
"""Makes datasets/sample/{train,test}.png from Fashion-MNIST.

usage: make_sample.py [SOURCE [TARGET]]

SOURCE holds the four idx files, gzip-compressed; the default is where Debian's package
dataset-fashion-mnist puts them.  TARGET is datasets/sample.  The raw files are checked by SHA-256
before anything is written.

A sheet is an 8-bit grey PNG of 28x28 tiles in rows.  Tile i is image i of the sample: the
(i // 10)-th image, in file order, of class i % 10.  So its label is i % 10, and every column of the
sheet holds one class.  The pixels depend on nothing else; the compressed bytes may differ between
versions of zlib.

Prints, per sheet, its size in bytes and FNV-1a (64 bits) of the pixels in image order, which
tests/datasets/test_sample.c expects.
"""
import gzip
import hashlib
import struct
import sys
import zlib

import numpy as np

SIDE, CLASSES = 28, 10
SHEETS = (   # name, file prefix, images per class, tiles per row
    ("train", "train", 200, 50),
    ("test", "t10k", 50, 20),
)
SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def read(source, name):
    with gzip.open(f"{source}/{name}.gz") as f:
        raw = f.read()
    if hashlib.sha256(raw).hexdigest() != SHA256[name]:
        sys.exit(f"{source}/{name}.gz: not the published file")
    rank = raw[3]
    dims = struct.unpack(f">{rank}I", raw[4:4 + 4 * rank])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(dims)


def filtered(sheet, kind):
    """The sheet's rows after PNG filter `kind` (0 none, 1 left, 2 up, 3 mean, 4 Paeth)."""
    x = sheet.astype(np.int16)
    a = np.pad(x, ((0, 0), (1, 0)))[:, :-1]      # left
    b = np.pad(x, ((1, 0), (0, 0)))[:-1]         # up
    c = np.pad(x, ((1, 0), (1, 0)))[:-1, :-1]    # left and up
    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    paeth = np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
    guess = (np.zeros_like(x), a, b, (a + b) // 2, paeth)[kind]
    rows = (x - guess).astype(np.uint8)
    return np.pad(rows, ((0, 0), (1, 0)), constant_values=kind)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(sheet):
    """One filter for all rows: the one that compresses best."""
    packed = min((zlib.compress(filtered(sheet, k).tobytes(), 9) for k in range(5)), key=len)
    height, width = sheet.shape
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", packed)
            + chunk(b"IEND", b""))


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def main(source="/usr/share/datasets/fashion-mnist", target="datasets/sample"):
    for name, prefix, per_class, columns in SHEETS:
        images = read(source, f"{prefix}-images-idx3-ubyte")
        labels = read(source, f"{prefix}-labels-idx1-ubyte")
        chosen = np.stack([np.flatnonzero(labels == c)[:per_class] for c in range(CLASSES)], axis=1)
        tiles = images[chosen.ravel()]
        rows = len(tiles) // columns
        grid = tiles.reshape(rows, columns, SIDE, SIDE)
        sheet = grid.swapaxes(1, 2).reshape(rows * SIDE, columns * SIDE)
        data = png(sheet)
        with open(f"{target}/{name}.png", "wb") as f:
            f.write(data)
        checksum = fnv1a(tiles.tobytes())
        print(f"{name}: {len(tiles)} images, {len(data)} bytes, pixels {checksum:#018x}")


if __name__ == "__main__":
    main(*sys.argv[1:])
