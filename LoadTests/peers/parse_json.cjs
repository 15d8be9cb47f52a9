// Times JSON.parse on a file: prints the median of COUNT parses in milliseconds, then the median of
// parses that also visit every value. node parse_json.cjs FILE COUNT
const { readFileSync } = require('node:fs');

const [path, count] = process.argv.slice(2);
const text = readFileSync(path, 'utf8');

function visit(value) {
  if (typeof value === 'string') return value.length;
  if (typeof value === 'number') return value;
  if (value === null || typeof value !== 'object') return 0;
  let sum = 0;
  if (Array.isArray(value)) for (const element of value) sum += visit(element);
  else for (const key in value) sum += visit(value[key]);
  return sum;
}

function median(work) {
  const times = [];
  for (let round = 0; round < Number(count) + 5; round++) {
    const begin = performance.now();
    work(JSON.parse(text));
    if (round >= 5) times.push(performance.now() - begin);
  }
  return times.sort((a, b) => a - b)[times.length >> 1];
}

let checksum = 0;
const parse = median(() => {});
const visited = median((value) => { checksum += visit(value); });
if (!(checksum > 0)) throw new Error('the document is empty');
console.log(parse.toFixed(4), visited.toFixed(4));
