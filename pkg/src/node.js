// ESM face of the one instance that `require` gives as well.
export {
  CellsError,
  conversationBranches,
  createCellsDriver,
  createHttpSourceProvider,
  harnessArchiveAllowed,
  harnessEvent,
  harnessItems,
  harnessRequest,
  HttpFSBackend,
  HttpProcessSession,
  HttpSeqClient,
  HttpTransport,
  init,
  init as default,
  openHttpFileSource,
} from './node.cjs';
