import { readdirSync, readFileSync } from 'node:fs';

const documents = ['README.md', ...readdirSync('docs').map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith('.md'),
);
const examples = readdirSync('test/nest/examples').map((name) => name.replace(/\.ts$/, ''));

/** Every TypeScript block of a document, with the name in the comment before it. */
function blocks(path: string): { name: string | undefined; code: string }[] {
  const found = readFileSync(path, 'utf8').matchAll(
    /(?:<!-- example: (\S+) -->\n+)?```(?:ts|typescript|js)\n(.*?)```/gs,
  );
  return [...found].map(([, name, code]) => ({ name, code }));
}

/** The same but for line breaks: what the package is called here has another length. */
const normal = (code: string): string => code.replace(/\s+/g, ' ').replace(/, ([}\])])/g, ' $1');
const published = (source: string): string =>
  source
    .replace(/'[./]+\/lib\/index\.js'/g, "'nestjs-mqtt-pulsar'")
    .replace(/'[./]+\/lib\/testing\/index\.js'/g, "'nestjs-mqtt-pulsar/testing'");

const shown = documents.flatMap((path) => blocks(path).map((block) => ({ path, ...block })));
const named = shown.flatMap(({ path, name, code }) => (name === undefined ? [] : [[path, name, code] as const]));

it.each(named)('%s shows the example %s as it is compiled and run', (_path, name, code) => {
  expect(normal(code)).toBe(normal(published(readFileSync(`test/nest/examples/${name}.ts`, 'utf8'))));
});

it('there is no other TypeScript, but for the quick start, which the package check compiles and runs', () => {
  const others = shown.filter(({ name }) => name === undefined);
  expect(others.map(({ path }) => path)).toEqual(['README.md']);
  expect(others[0].code).toContain('async function bootstrap()');
});

it('every example is in a document', () => {
  expect(named.map(([, name]) => name).sort()).toEqual([...examples].sort());
});
