// ESM face of the one instance that `require` gives as well.
export {
  CellsError,
  createCellsDriver,
  harnessArchiveAllowed,
  HttpFSBackend,
  HttpSeqClient,
  HttpTransport,
  init,
  init as default,
} from './node.cjs';
