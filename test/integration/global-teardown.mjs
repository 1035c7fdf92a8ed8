export default async function tearDown() {
  await Promise.all((globalThis.__integrationBrokers ?? []).map((broker) => broker.kill()));
}
