//! `cells-old-node '{"exports":[{"alias":"a","path":"/tmp/a","writable":true}],"credential":{"token":"…"}}'`: the old
//! node as a program, for tests in other languages. The argument is a `cells_testkit::old_node::OldNodeOptions` as
//! JSON. It prints one JSON line `{"url":…}` and runs until its standard input ends, so that it never outlives its
//! parent.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_family = "wasm"))]
    if let Err(error) = native::main() {
        eprintln!("cells-old-node: {error}");
        return std::process::ExitCode::from(2);
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::error::Error;

    use cells_testkit::old_node::OldNode;

    #[tokio::main]
    pub(super) async fn main() -> Result<(), Box<dyn Error>> {
        let options = std::env::args().nth(1).ok_or("give the options of the node as JSON")?;
        let node = OldNode::start(serde_json::from_str(&options)?).await?;
        println!("{}", serde_json::json!({ "url": node.endpoint() }));
        tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
        Ok(())
    }
}
