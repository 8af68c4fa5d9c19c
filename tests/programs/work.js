const { Worker, isMainThread, parentPort } = require('worker_threads');
const zlib = require('zlib');
if (isMainThread) {
  let total = 0, left = 4;
  for (let n = 0; n < 4; n++) new Worker(__filename).on('message', m => {
    total += m;
    if (--left === 0) zlib.gzip(Buffer.alloc(1000000, 'abc'), (e, b) => console.log(total, zlib.gunzipSync(b).length));
  });
} else {
  let words = {};
  for (let i = 0; i < 50000; i++) words['w' + i % 1000] = (words['w' + i % 1000] || 0) + 1;
  parentPort.postMessage(Object.keys(words).length);
}
