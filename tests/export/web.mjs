// Scores of ONNX files in onnxruntime-web (WASM), for tests/export/compare.py.
//
//     node web.mjs WEB LIST       LIST: lines of  file.onnx images.u8 n h w c scores.f32
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const ort = createRequire(path.resolve(process.argv[2]) + "/")("onnxruntime-web");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";
const BATCH = 20;
for (const line of fs.readFileSync(process.argv[3], "utf8").trim().split("\n")) {
    const [file, images, n, h, w, c, to] = line.split("\t");
    const bytes = fs.readFileSync(images), row = h * w * c, out = [];
    const session = await ort.InferenceSession.create(fs.readFileSync(file), { executionProviders: ["wasm"] });
    for (let i = 0; i < n; i += BATCH) {
        const now = Math.min(BATCH, n - i);
        const image = new ort.Tensor("uint8", new Uint8Array(bytes.subarray(i * row, (i + now) * row)), [now, +h, +w, +c]);
        out.push(Buffer.from((await session.run({ image })).scores.data.slice().buffer));
    }
    fs.writeFileSync(to, Buffer.concat(out));
    await session.release();
}
