// ESM face of the functions and the one error class that `require` gives as well.
export { CellsError, conversationBranches, harnessArchiveAllowed } from './harness.cjs';
