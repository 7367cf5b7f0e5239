//! A running node, a fault proxy before it, and the program `cells` as its client.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cells_testkit::fault_proxy::FaultProxy;
use cells_testkit::local_node::{LocalNode, NodeOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};

pub(crate) const KEY: &str = "a-key-that-only-tests-know";

/// Everything a test needs. Ends with the test.
pub(crate) struct Stage {
    pub(crate) proxy: FaultProxy,
    node: Option<LocalNode>,
    options: NodeOptions,
    arguments: &'static [&'static str],
    root: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Arguments, exit code, standard output, standard error. In the texts, `*` stands for anything.
pub(crate) type Case<'a> = (&'a [&'a str], i32, &'a str, &'a str);

impl Stage {
    /// A node with the export `notes`, read-write, and its workspace of the scripted agent.
    pub(crate) async fn new() -> Self {
        Self::with_exports(&["notes"]).await
    }

    /// A node with these exports, read-write, or read-only when `:ro` follows the name.
    pub(crate) async fn with_exports(exports: &[&str]) -> Self {
        Self::with_arguments(exports, &[]).await.unwrap()
    }

    /// As [`Stage::with_exports`], with more arguments for `cells serve`, and an error when it does not start.
    pub(crate) async fn with_arguments(exports: &[&str], arguments: &'static [&'static str]) -> std::io::Result<Self> {
        let root = tempfile::tempdir().unwrap();
        let export = |name: &&str| {
            let (name, access) = name.strip_suffix(":ro").map_or((*name, ":rw"), |name| (name, ""));
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            OsString::from(format!("{name}={}{access}", path.display()))
        };
        let mut options = NodeOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_cells")),
            exports: exports.iter().map(export).collect(),
            state: root.path().join("state"),
            listen: ([127, 0, 0, 1], 0).into(),
            api_key: KEY.to_owned(),
        };
        let node = LocalNode::start_with(&options, arguments).await?;
        options.listen = node.address().unwrap();
        let proxy = FaultProxy::start(options.listen).await.unwrap();
        Ok(Self { proxy, node: Some(node), options, arguments, root })
    }

    /// A path on this machine.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path)
    }

    /// Writes a file into the export `notes`.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path("notes").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Ends the node as a power cut would.
    pub(crate) async fn kill_node(&mut self) {
        self.node.take().unwrap().kill().await.unwrap();
    }

    /// Starts the same node at the same address.
    pub(crate) async fn start_node(&mut self) {
        self.node = Some(LocalNode::start_with(&self.options, self.arguments).await.unwrap());
    }

    /// `cells` with the right key, through the proxy, with nothing of the environment of this process.
    pub(crate) fn cells(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.options.program);
        command.env_clear().env("HOME", self.root.path()).env("TZ", "UTC").current_dir(self.root.path());
        command.env("CELLS_URL", self.proxy.url()).env("CELLS_API_KEY", KEY).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.cells(arguments)).await
    }

    /// Runs commands one after another and checks what each does.
    pub(crate) async fn check(&self, cases: &[Case<'_>]) {
        for (arguments, code, stdout, stderr) in cases {
            let ran = self.run(arguments).await;
            ran.check(&format!("{arguments:?}"), *code, stdout, stderr);
        }
    }

    /// Runs a command that must succeed with `--json`, and gives its object.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    /// Waits until a client has sent a request, such as `PUT /v1/fs/notes/content`, so often.
    pub(crate) async fn sees(&self, request: &str, times: u64) {
        while self.proxy.counts().paths.get(request).is_none_or(|seen| *seen < times) {
            tokio::task::yield_now().await;
        }
    }

    /// Starts a command and goes on.
    pub(crate) fn start(&self, arguments: &[&str]) -> Started {
        Started::of(&mut self.cells(arguments))
    }
}

impl Ran {
    pub(crate) async fn of(command: &mut Command) -> Self {
        let output = command.output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains(KEY), "the key is printed: {stderr}");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }

    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn check(&self, what: &str, code: i32, stdout: &str, stderr: &str) {
        assert_eq!(self.code, Some(code), "{what}: {self:?}");
        assert!(matches(stdout, self.stdout()), "{what}: {}", self.stdout());
        assert!(matches(stderr, &self.stderr), "{what}: {}", self.stderr);
    }

    /// The value behind `name` on a line of its own, such as `epoch   0f…`.
    pub(crate) fn named(&self, name: &str) -> &str {
        named(&self.stderr, name).unwrap()
    }

    /// One JSON object a line.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A command that runs.
pub(crate) struct Started {
    child: Child,
    stderr: BufReader<ChildStderr>,
    seen: String,
}

impl Started {
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, seen: String::new() }
    }

    /// Waits for a line on standard error that starts with `start`, and gives it.
    pub(crate) async fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            let n_bytes = self.stderr.read_line(&mut line).await.unwrap();
            assert_ne!(n_bytes, 0, "no line starts with {start:?}: {}", self.seen);
            self.seen.push_str(&line);
            if line.starts_with(start) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub(crate) async fn finish(mut self) -> Ran {
        let mut stdout = self.child.stdout.take().unwrap();
        let mut bytes = Vec::new();
        let (read, read_errors) =
            tokio::join!(stdout.read_to_end(&mut bytes), self.stderr.read_to_string(&mut self.seen));
        read.and(read_errors).unwrap();
        let code = self.child.wait().await.unwrap().code();
        Ran { code, stdout: bytes, stderr: self.seen }
    }
}

/// The arguments of the command `cells …` behind `ask again with: ` in `line`.
pub(crate) fn asks(line: &str) -> Vec<String> {
    let (_, command) = line.trim_end().split_once("ask again with: cells ").unwrap();
    command.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// Relative path and content of every file below `folder`; directories end with a slash.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut tree = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                tree.insert(format!("{name}/"), Vec::new());
                waiting.push(path);
            } else {
                tree.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    tree
}

/// Bytes that are different everywhere.
pub(crate) fn content(n_bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(n_bytes).collect()
}

/// The value behind `name` on a line of its own.
pub(crate) fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim)
}

/// Whether `text` is `pattern`, in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some(at) = rest.find(middle) else { return false };
            rest = &rest[at + middle.len()..];
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

#[test]
fn patterns_match_all_of_a_text() {
    for (pattern, text, expected) in [
        ("", "", true),
        ("", "a", false),
        ("a", "a", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*b*c", "a--b--c", true),
        ("a*b*c", "a--c--b", false),
        ("*b*", "abc", true),
        ("*d*", "abc", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
