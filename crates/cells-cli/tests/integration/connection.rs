//! Which node, and as whom.

use std::process::Stdio;

use cells_testkit::fault_proxy::{Fault, Plan, Rule};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::stage::{KEY, Ran, Stage};

#[tokio::test]
async fn a_node_says_what_it_is() {
    let stage = Stage::new().await;
    let (root, mcp) = (stage.proxy.url(), format!("{}/mcp", stage.proxy.url()));
    let expected = format!(
        "node     node-*\nfiles    {root}\nmcp      {mcp}\noffers   agents, events, durable receipts*\nyou are  owner\n"
    );
    stage.check(&[(&["discover"], 0, &expected, ""), (&["discover", "--url", &mcp], 0, &expected, "")]).await;
    let descriptor = stage.json(&["discover"]).await;
    assert_eq!((descriptor["httpEndpoint"].as_str(), descriptor["mcpEndpoint"].as_str()), (Some(&*root), Some(&*mcp)));
    assert_eq!(descriptor["authorization"]["principalId"], "owner");
    assert_eq!(descriptor["legacy"], false);
}

#[tokio::test]
async fn keys_come_from_the_environment_or_a_file() {
    let stage = Stage::new().await;
    let write = |name: &str, text: &str| std::fs::write(stage.path(name), text).unwrap();
    write("right", &format!("{KEY}\n"));
    write("wrong", "another-key-that-nobody-knows\n");
    write("empty", "\n");
    write("two", "one\ntwo\n");
    const REFUSED: &str = "cells: the node refuses the credential, or wants one; check CELLS_API_KEY, *\n";
    const NONE: &str = "cells: no API key: set CELLS_API_KEY, *\n";
    let cases: [(Option<&str>, &[&str], i32, &str); 10] = [
        (Some(KEY), &[], 0, ""),
        (Some("another-key-that-nobody-knows"), &[], 5, REFUSED),
        (None, &[], 2, NONE),
        (Some(""), &[], 2, NONE),
        (None, &["--api-key-file", "right"], 0, ""),
        (Some(KEY), &["--api-key-file", "wrong"], 5, REFUSED),
        (None, &["--api-key-file", "empty"], 2, "cells: --api-key-file empty is empty\n"),
        (None, &["--api-key-file", "two"], 2, "cells: --api-key-file two has more than one line\n"),
        (None, &["--api-key-file", "none"], 2, "cells: --api-key-file none: *\n"),
        (Some(KEY), &["--anonymous"], 5, REFUSED),
    ];
    for (key, options, code, stderr) in cases {
        let mut command = stage.cells(&["exports"]);
        command.args(options).env_remove("CELLS_API_KEY");
        if let Some(key) = key {
            command.env("CELLS_API_KEY", key);
        }
        let stdout = if code == 0 { "ALIAS*" } else { "" };
        Ran::of(&mut command).await.check(&format!("{key:?} {options:?}"), code, stdout, stderr);
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_is_told_in_one_line() {
    let stage = Stage::new().await;
    stage
        .check(&[
            (
                &["exports", "--url", "127.0.0.1:4477"],
                2,
                "",
                "cells: --url or CELLS_URL: *must start with http:// or https://\n",
            ),
            (&["exports", "--url", "http://me:secret-word@node/"], 2, "", "cells: --url or CELLS_URL: *\n"),
            (&["exports", "--username", "a:b"], 2, "", "cells: --username or CELLS_USERNAME: *\n"),
            (&["exports", "--timeout", "0"], 2, "", "cells: *--timeout*\n"),
            (
                &["exports", "--url", "http://127.0.0.1:1"],
                1,
                "",
                "cells: *check that the node runs, and --url or CELLS_URL (EIO)\n",
            ),
            (&["nothing"], 2, "", "cells: unrecognized subcommand 'nothing'*\n"),
        ])
        .await;
    let ran = stage.run(&["exports", "--url", "http://me:secret-word@node/"]).await;
    assert!(!ran.stderr.contains("secret-word"), "{ran:?}");
    let ran = stage.run(&["exports", "--url", "http://127.0.0.1:1", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&told["error"]["operation"], &told["error"]["exitCode"]), (&"connect".into(), &1.into()));
}

#[tokio::test]
async fn the_help_tells_the_exit_codes_and_never_the_key() {
    let stage = Stage::new().await;
    stage.check(&[(&["--help"], 0, "*Exit codes of the client verbs:\n    0  done\n*  130  interrupted\n", "")]).await;
    let ran = stage.run(&["cat", "--help"]).await;
    assert!(ran.stdout().contains("CELLS_API_KEY") && !ran.stdout().contains(KEY), "{ran:?}");
}

#[tokio::test]
async fn a_node_with_a_password_wants_the_user_name_too() {
    let stage = Stage::new().await;
    let export = stage.path("notes").display().to_string();
    let config = format!(
        "listen = \"127.0.0.1:0\"\nusername = \"ada\"\npassword = {KEY:?}\n[[exports]]\nalias = \"notes\"\npath = {export:?}\n"
    );
    std::fs::write(stage.path("cells.toml"), config).unwrap();
    let mut serve = stage.cells(&["serve", "--config", "cells.toml", "--state", "other-state"]);
    let mut node = serve.env_remove("CELLS_API_KEY").stderr(Stdio::inherit()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let announced: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = announced["endpoint"].as_str().unwrap();
    stage
        .check(&[
            (&["exports", "--url", url, "--username", "ada"], 0, "ALIAS*notes*", ""),
            (&["exports", "--url", url, "--username", "eve"], 5, "", "cells: the node refuses the credential*"),
            (&["exports", "--url", url], 5, "", "cells: the node refuses the credential*"),
            (&["send", "--url", url, "--username", "ada", "reject EIO"], 3, "", "*--username ada\n"),
        ])
        .await;
    node.kill().await.unwrap();
}

#[tokio::test]
async fn an_event_stream_that_does_not_come_ends_the_waiting() {
    let stage = Stage::new().await;
    stage.proxy.set_plan(Plan::new([Rule::path("/v1/events", Fault::ResetBefore)]));
    stage
        .check(&[(&["send", "say x", "--timeout", "1"], 1, "", "cells: the event stream is not there after 1 s\n")])
        .await;
}

/// A web server that answers every request with an HTML page and this status.
async fn web_server(status: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let page = "<html>not here</html>";
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn a_web_server_that_is_no_node_is_said_to_be_none() {
    let stage = Stage::new().await;
    for status in ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented"] {
        let url = web_server(status).await;
        for arguments in [&["exports"][..], &["discover"], &["cat", "notes/x"], &["ls", "notes"], &["sessions"]] {
            let ran = stage.run(&[arguments, &["--url", &url]].concat()).await;
            ran.check(
                &format!("{status} {arguments:?}"),
                1,
                "",
                "cells: *this is probably not a Cells node; check --url or CELLS_URL (*)\n",
            );
            assert!(!ran.stderr.contains("check the path"), "{ran:?}");
        }
    }
}
