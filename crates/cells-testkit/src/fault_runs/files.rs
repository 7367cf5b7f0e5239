//! The mutations of files, processes and SeqFiles.

use super::FaultRun;

/// A mutation of the export `work`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMutation {
    /// A new file.
    PutCreate,
    /// New content of a file.
    PutMatch,
    /// A new directory.
    Mkdir,
    /// Another name of a file.
    Rename,
    /// The removal of a file.
    Remove,
    /// Changes of a SeqFile.
    SeqTransaction,
    /// A command.
    ProcessStart,
}

impl FileMutation {
    /// Every mutation.
    pub const ALL: [FileMutation; 7] = [
        FileMutation::PutCreate,
        FileMutation::PutMatch,
        FileMutation::Mkdir,
        FileMutation::Rename,
        FileMutation::Remove,
        FileMutation::SeqTransaction,
        FileMutation::ProcessStart,
    ];

    /// The run of a seed, and its mutation.
    pub fn of_seed(seed: u64) -> (FileMutation, FaultRun) {
        let run = FaultRun::of_seed(seed, &FileMutation::ALL.map(FileMutation::as_str));
        let mutation = FileMutation::ALL.into_iter().find(|mutation| mutation.as_str() == run.mutation);
        (mutation.unwrap_or(FileMutation::PutCreate), run)
    }

    /// Its name in lines and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            FileMutation::PutCreate => "put-create",
            FileMutation::PutMatch => "put-match",
            FileMutation::Mkdir => "mkdir",
            FileMutation::Rename => "rename",
            FileMutation::Remove => "remove",
            FileMutation::SeqTransaction => "seq-transaction",
            FileMutation::ProcessStart => "process-start",
        }
    }

    /// Method and path of its request.
    pub fn request(self) -> (&'static str, &'static str) {
        match self {
            FileMutation::PutCreate | FileMutation::PutMatch => ("PUT", "/v1/fs/work/content"),
            FileMutation::Mkdir | FileMutation::Rename | FileMutation::Remove => ("POST", "/v1/fs/work/mutate"),
            FileMutation::SeqTransaction => ("POST", "/v1/fs/work/seq/transaction"),
            FileMutation::ProcessStart => ("POST", "/v1/processes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seventy_seeds_are_every_pair_of_mutation_and_fault() {
        let mut pairs: Vec<String> = (0..70)
            .map(|seed| {
                let (mutation, run) = FileMutation::of_seed(seed);
                assert_eq!(mutation.as_str(), run.mutation);
                format!("{} {}", run.mutation, run.fault)
            })
            .collect();
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 70);
    }
}
