/** The models of a profile or session. */
export interface HarnessModelCatalog {
  /** At most 256 with unique ids. */
  models: HarnessModel[];
  /** What is used where nothing is chosen. */
  default: HarnessModelSelection | null;
  /** What the session uses now, where one was asked about. */
  current: HarnessModelSelection | null;
}

/** One model. */
export interface HarnessModel {
  /** Its name for the agent; opaque. */
  id: string;
  /** Its name for people. */
  label: string;
  /** How much it can be told to think, at most 32 with unique ids; may be empty. */
  reasoningEfforts: ReasoningEffort[];
  /** The effort of this model where none is chosen. */
  defaultReasoningEffort?: string;
}

/** One reasoning effort of a model. */
export interface ReasoningEffort {
  /** Its name for the agent; opaque. */
  id: string;
  /** Its name for people. */
  label: string;
}

/** A chosen model. */
export interface HarnessModelSelection {
  /** The model. */
  modelId: string;
  /** One of its efforts; without it the native default. */
  reasoningEffort?: string;
}

/** Numbers of tokens. Input, cache read, cache write and output are disjoint. */
export interface TokenCounts {
  /** Read afresh. */
  inputTokens: number;
  /** Read from a cache. */
  cacheReadTokens: number;
  /** Written to a cache. */
  cacheWriteTokens: number;
  /** Produced, reasoning included. */
  outputTokens: number;
  /** The part of the output that was reasoning. */
  reasoningTokens: number;
}

/** What the native transcript says of the tokens of a session. Sums hold; no prices. */
export interface HarnessUsage {
  /** Always 1. */
  version: 1;
  /** The session. */
  sessionId: string;
  /** One entry a model, at most 64; `modelId` is `null` where the transcript does not name one. */
  entries: (TokenCounts & { modelId: string | null })[];
  /** The sums of all entries; `totalTokens` is input, cache read, cache write and output together. */
  totals: TokenCounts & { totalTokens: number };
}

/** Metrics of a session. What is `null` is not known; it is never 0 for that. */
export interface HarnessMetrics {
  /** Always 1. */
  version: 1;
  /** The session. */
  sessionId: string;
  /** When the node looked, in Unix milliseconds. */
  observedAt: number;
  /** How full the context was when it was used last. */
  context: { capacityTokens: number | null; usedTokens: number | null } | null;
  /** What may be used in a time, at most 16 with unique ids. */
  quotas: QuotaMetrics[];
  /** What was paid with. */
  credits: { unit: string; used: number | null; remaining: number | null } | null;
  /** What the agent itself reckons it cost. */
  cost: { currency: string; amount: number | null; estimated: true } | null;
}

/** A quota. */
export interface QuotaMetrics {
  /** Its identity. */
  id: string;
  /** Its name for people. */
  label: string;
  /** 0 to 100. */
  usedPercent: number | null;
  /** Length of its window in minutes, at least 1. */
  windowMinutes: number | null;
  /** When it starts anew, in Unix milliseconds. */
  resetsAt: number | null;
}

/** Evidence about the original runtime of a session. A missing process or lock alone proves nothing. */
export interface HarnessExecutionRecovery {
  /**
   * `running`: it runs, or something holds the lock. `detached`: it is over, and nobody has taken its place; everything else of
   * the session says so as well. `unknown`: nothing is proven.
   */
  state: 'running' | 'detached' | 'unknown';
  /** The turn it is about: the last that is known to have started. */
  turnId: string | null;
  /** The process that ran it. */
  pid: number | null;
  /** Identity of that process, which no other process has after it. */
  runtimeId: string | null;
  /** When it started, in Unix milliseconds. */
  startedAt: number | null;
  /** The write lock of the session. */
  lock: 'held' | 'not-held' | 'unknown';
  /** When the node looked, in Unix milliseconds. */
  observedAt: number;
}
