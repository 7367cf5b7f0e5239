//! The examples, run as a user runs them, against the node of README.md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cells_server::{Credential, Node, ServeConfig};
use tokio::sync::oneshot;

/// What each example prints.
const PRINTS: &[(&str, &[&str])] = &[
    (
        "agents",
        &[
            "listed: true",
            "asks: echo done by the agent",
            "ran: echo done by the agent",
            "said: Command `echo done by the agent` exited with 0:",
            "downloaded: 200000 bytes",
            "forked: 2 branches",
            "found: true",
        ],
    ),
    (
        "files",
        &[
            "1048576 of 1048576 bytes",
            "ECONFLICT, Some(NotCommitted)",
            "ETIMEDOUT scratch: unknown",
            "nothing was written",
        ],
    ),
    ("http_transport", &["\"docs\" \"ro\"", "\"scratch\" \"rw\"", "\"directory\"", "b\"#\"", "status 404"]),
    ("processes", &["working", "done", "exit code Some(3), 13 bytes", "ECANCELLED, Some(Partial)"]),
    ("seq", &["somebody was faster; look again", "state = \"final\""]),
    ("sources", &["/docs /scratch", "http:home Rw", "Hello", "greeting.txt Some(6)", "Err(AccessDenied)"]),
    ("start", &["cli.md Some(2)", "Hello from the agent."]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_does_what_it_says() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    for directory in ["docs", "scratch"] {
        std::fs::create_dir(path(directory)).unwrap();
    }
    std::fs::write(path("docs").join("cli.md"), "#\n").unwrap();
    std::fs::write(path("local"), vec![7; 1 << 20]).unwrap();
    let config = ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        state: Some(path("state")),
        exports: vec![
            format!("docs={}", path("docs").display()).parse().unwrap(),
            format!("scratch={}:rw", path("scratch").display()).parse().unwrap(),
        ],
        credential: Credential::ApiKey(None),
        ..ServeConfig::default()
    };
    let node = Node::bind(config).await.unwrap();
    let (url, key) = (node.endpoint().to_owned(), node.api_key().unwrap().to_owned());
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(node.run(async {
        let _ = stopped.await;
    }));

    for (name, lines) in PRINTS {
        let mut example = Command::new(program(name));
        example.arg(path("local")).env("CELLS_URL", &url).env("CELLS_API_KEY", &key);
        let Output { status, stdout, stderr } =
            tokio::task::spawn_blocking(move || example.output().unwrap()).await.unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{name}: {stderr}");
        // A terminal shows only what comes after the last return to the start of a line.
        let stdout = String::from_utf8(stdout).unwrap();
        let shown: Vec<_> = stdout.lines().map(|line| line.rsplit('\r').next().unwrap()).collect();
        assert_eq!(shown, *lines, "{name}: {stderr}");
        assert_eq!(std::fs::read_dir(path("scratch")).unwrap().count(), 0, "{name} tidies up");
    }
}

#[test]
fn every_example_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = files.filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned())).collect();
    assert_eq!(there, PRINTS.iter().map(|(name, _)| (*name).to_owned()).collect());
}

/// Cargo builds the examples before it runs any test of the package, unless it is told to build one test only.
fn program(example: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(example);
    assert!(program.exists(), "run `cargo build --package cells-native --examples` first");
    program
}
