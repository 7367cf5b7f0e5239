use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

const KEY: &str = "a-key-that-only-tests-know";

/// `cells serve --state AT/state`, with nothing of the environment of this process.
fn cells(at: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cells"));
    command.env_clear().env("HOME", at).current_dir(at).args(["serve", "--state"]).arg(at.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same on a free port with the export `x`, the directory `AT/x`.
fn serve(at: &Path) -> Command {
    fs::create_dir_all(at.join("x")).unwrap();
    let mut command = cells(at);
    command.args(["--listen", "127.0.0.1:0", "--export", "x=x"]);
    command
}

/// `cells receipts purge --state AT/state` with these arguments: exit code, standard output and standard error.
fn purge(at: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cells"));
    command.env_clear().env("HOME", at).args(["receipts", "purge", "--state"]).arg(at.join("state")).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running node; killed when the test ends before it.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    announced: Value,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let announced = serde_json::from_str(&line).unwrap_or(Value::Null);
        Self { child, stdout, announced }
    }

    /// Status of `GET /v1/exports` with this key.
    fn status(&self, key: &str) -> String {
        self.status_of("/v1/exports", key)
    }

    /// Status of `GET` on a route with this key.
    fn status_of(&self, route: &str, key: &str) -> String {
        let address = self.announced["endpoint"].as_str().unwrap().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head =
            format!("GET {route} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// Standard output of `cells send` with this prompt and the key of all tests.
    fn send(&self, prompt: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cells"));
        command.env_clear().env("CELLS_API_KEY", KEY).args(["send", prompt, "--url"]);
        let output = command.arg(self.announced["endpoint"].as_str().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sends a signal and gives the exit status, the rest of standard output, and standard error.
    fn stop(mut self, signal: rustix::process::Signal) -> (ExitStatus, String, String) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        let status = self.child.wait().unwrap();
        let (mut rest, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, rest, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that must end with exit code 2 and one line on standard error, which is returned.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}");
    assert_eq!(line.matches('\n').count(), 1, "{line}");
    line
}

#[test]
fn the_announcement_is_one_json_line_and_the_key_is_printed_once_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let node = Running::start(&mut serve(directory.path()));
    let announced = node.announced.clone();
    let members: Vec<&String> = announced.as_object().unwrap().keys().collect();
    assert_eq!(members, ["endpoint", "mcpUrl", "serverId"]);
    assert_eq!(announced["mcpUrl"], format!("{}/mcp", announced["endpoint"].as_str().unwrap()));
    assert_eq!(node.status("wrong"), "401");
    let (status, rest, errors) = node.stop(rustix::process::Signal::TERM);
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "{errors}");
    let key = errors.lines().find_map(|line| line.strip_prefix("API key (shown only now): ")).unwrap();
    assert_eq!(errors.matches(key).count(), 1, "{errors}");

    let again = Running::start(&mut serve(directory.path()));
    assert_eq!(again.announced["serverId"], announced["serverId"]);
    assert_eq!(again.status(key), "200");
    let (status, _, errors) = again.stop(rustix::process::Signal::INT);
    assert_eq!(status.code(), Some(0));
    assert!(!errors.contains(key) && !errors.contains("API key (shown"), "{errors}");

    let renewed = Running::start(serve(directory.path()).arg("--new-key"));
    assert_eq!(renewed.status(key), "401");
    let (_, _, errors) = renewed.stop(rustix::process::Signal::INT);
    assert!(errors.contains("API key (shown only now): "), "{errors}");
}

#[test]
fn the_environment_sets_the_key_and_the_state_directory_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let node = Running::start(serve(directory.path()).env("CELLS_API_KEY", KEY));
    assert_eq!(node.status(KEY), "200");
    let (_, rest, errors) = node.stop(rustix::process::Signal::TERM);
    assert!(!errors.contains(KEY) && !rest.contains(KEY), "{errors}");
    let again = Running::start(&mut serve(directory.path()));
    assert_eq!(again.status(KEY), "200");
}

#[test]
fn a_killed_node_can_be_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Running::start(serve(directory.path()).env("CELLS_API_KEY", KEY));
    let port = first.announced["endpoint"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut command = cells(directory.path());
    let again = Running::start(command.args(["--export", "x=x", "--listen", &format!("127.0.0.1:{port}")]));
    assert_eq!(again.announced, first.announced, "same state, same port");
    assert_eq!(again.status(KEY), "200");
}

#[test]
fn the_log_names_method_route_and_status_and_nothing_private() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("x/private-folder")).unwrap();
    let node = Running::start(serve(directory.path()).args(["--log-level", "trace"]).env("CELLS_API_KEY", KEY));
    assert_eq!(node.status_of("/v1/fs/x/entries?path=private-folder", KEY), "200");
    assert_eq!(node.status_of("/v1/fs/x/content?path=private-file", KEY), "404");
    assert_eq!(node.status_of("/private-route", KEY), "404");
    assert_eq!(node.send("say private-prompt"), "private-prompt\n");
    let (_, _, errors) = node.stop(rustix::process::Signal::TERM);
    assert!(errors.contains("listening on http://127.0.0.1:"), "{errors}");
    for (method, route, status) in [
        ("GET", "/v1/fs/{alias}/entries", 200),
        ("GET", "/v1/fs/{alias}/content", 404),
        ("GET", "-", 404),
        ("POST", "/mcp", 200),
    ] {
        let line = format!("method={method} route=\"{route}\" status={status} ms=");
        assert!(errors.contains(&line), "{line}: {errors}");
    }
    let host_path = directory.path().to_str().unwrap();
    assert!(!errors.contains("private") && !errors.contains(KEY) && !errors.contains(host_path), "{errors}");
}

#[test]
fn wrong_use_gives_one_line_exit_code_2_and_creates_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, key, expected) in [
        (&["--export", "x=x", "--listen", taken.as_str()][..], None, "choose another with --listen"),
        (&["--export", "x=gone"], None, "export x: gone: no such directory"),
        (&["--export", "x=x", "--listen", "0.0.0.0:0"], None, "--insecure-http"),
        (&["--export", "x=x", "--config", "gone.toml"], None, "configuration gone.toml: cannot be read"),
        (&["--export", "x=x", "--config", "bad.toml"], None, "configuration bad.toml: line 1: unknown field `exprts`"),
        (&["--export", "x=x"], Some("short-secret"), "at least 24 bytes"),
        (&["--export", "x=x", "--new-key"], Some(KEY), "leave one of the two out"),
        (&[], None, "give at least one --export NAME=PATH"),
        (&["--export", "x"], None, "write NAME=PATH, NAME=PATH:ro or NAME=PATH:rw"),
        (&["--export", "a/b=x"], None, "export `a/b`: the name must be"),
        (&["--export", "x=x", "--listen", "here"], None, "write ADDR:PORT"),
        (&["--export", "x=x", "--log-level", "loud"], None, "off, error, warn, info, debug or trace"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("x")).unwrap();
        fs::write(directory.path().join("bad.toml"), "exprts = []\n").unwrap();
        let mut command = cells(directory.path());
        let line = refused(command.args(args).envs(key.map(|key| ("CELLS_API_KEY", key))));
        assert!(line.starts_with("cells: ") && line.contains(expected), "{args:?}: {line}");
        assert!(!line.contains("short-secret"), "{line}");
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["bad.toml", "x"], "{args:?}");
    }
}

#[test]
fn unknown_and_incomplete_flags_are_explained_on_one_line_with_exit_code_2() {
    let directory = tempfile::tempdir().unwrap();
    for (args, expected) in
        [(&["--tls-cert", "cert.pem"][..], "--tls-key"), (&["--listen"], "--listen"), (&["--exprt", "x=x"], "--export")]
    {
        let line = refused(cells(directory.path()).args(args));
        assert!(line.starts_with("cells: ") && line.contains(expected), "{args:?}: {line}");
    }
}

#[test]
fn a_second_node_on_the_same_state_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = Running::start(&mut serve(directory.path()));
    let line = refused(&mut serve(directory.path()));
    assert!(line.contains("another node uses it"), "{line}");
    assert_eq!(first.stop(rustix::process::Signal::TERM).0.code(), Some(0));
}

#[test]
fn flags_win_over_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::create_dir(at.join("from-file")).unwrap();
    let file = format!(
        "listen = \"127.0.0.1:1\"\nstate = \"elsewhere\"\nserver_id = \"desk\"\napi_key = \"{KEY}\"\n[[exports]]\npath = \"from-file\"\n"
    );
    fs::write(at.join("cells.toml"), file).unwrap();
    let node =
        Running::start(serve(at).args(["--config", "cells.toml"]).env("CELLS_API_KEY", "another-key-for-the-tests"));
    assert_eq!(node.announced["serverId"], "desk", "no flag says otherwise");
    assert_eq!((node.status(KEY), node.status("another-key-for-the-tests")), ("401".into(), "200".into()));
    assert!(at.join("state").is_dir() && !at.join("elsewhere").exists());
}

#[test]
fn receipts_of_old_starts_are_forgotten_while_the_node_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let check = |arguments: &[&str], code: i32, stdout: &str, error: &str| {
        let (status, out, errors) = purge(at, arguments);
        assert_eq!((status, out.as_str()), (Some(code), stdout), "{arguments:?}: {errors}");
        assert!(errors.contains(error) && errors.is_empty() == error.is_empty(), "{arguments:?}: {errors}");
        errors
    };
    check(&["--before", "2099-01-01"], 2, "", "no node has used it");
    assert_eq!(fs::read_dir(at).unwrap().count(), 0);
    for _ in 0..2 {
        let node = Running::start(&mut serve(at));
        let line = check(&["--before", "2099-01-01"], 2, "", "another node uses it");
        assert!(line.starts_with("cells: ") && line.matches('\n').count() == 1, "{line}");
        check(&["--before", "2099-01-01", "--json"], 2, "", "\"exitCode\":2");
        assert_eq!(node.stop(rustix::process::Signal::TERM).0.code(), Some(0));
    }
    check(&["--before", "2001-02-03"], 0, "forgot 0 starts of the node, with all receipts\n", "");
    check(&["--before", "tomorrow"], 2, "", "write YYYY-MM-DD");
    check(&[], 2, "", "--before");
    check(&["--before", "2099-01-01T00:00:00Z", "--json"], 0, "{\"epochs\":2}\n", "");
    check(&["--before", "2099-01-01"], 0, "forgot 0 starts of the node, with all receipts\n", "");
    assert_eq!(Running::start(&mut serve(at)).stop(rustix::process::Signal::TERM).0.code(), Some(0));
    check(&["--before", "2099-01-01"], 0, "forgot 1 start of the node, with all receipts\n", "");
}
