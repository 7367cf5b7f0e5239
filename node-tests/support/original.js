/** The first example of the original README, as it stands there; runs in Node and, after `init`, in a browser. */
export async function original(createCellsDriver, endpoint, password) {
  const adapter = createCellsDriver();
  adapter.setCredential('workstation', password);
  const connection = { endpoint, username: 'owner', credentialRef: 'workstation' };
  const harness = adapter.harness(connection);
  const { profiles } = await harness.profiles();
  const sessions = await harness.list(profiles[0].id);
  await harness.close();
  await adapter.dispose();
  return sessions;
}
