//! `cells-fault-proxy 127.0.0.1:PORT`: the fault proxy as a program, see `cells_testkit::fault_proxy::control`.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_family = "wasm"))]
    if let Err(error) = native::main() {
        eprintln!("cells-fault-proxy: {error}");
        return std::process::ExitCode::from(2);
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::{error::Error, net::SocketAddr, sync::Arc};

    use cells_testkit::fault_proxy::{FaultProxy, control::Control};

    #[tokio::main]
    pub(super) async fn main() -> Result<(), Box<dyn Error>> {
        let upstream: SocketAddr = match std::env::args().nth(1).map(|address| address.parse()) {
            Some(Ok(address)) => address,
            Some(Err(_)) | None => return Err("give the address of the node, such as 127.0.0.1:8000".into()),
        };
        let proxy = Arc::new(FaultProxy::start(upstream).await?);
        let control = Control::bind(proxy.clone()).await?;
        println!("{}", serde_json::json!({ "url": proxy.url(), "control": format!("http://{}", control.address()?) }));
        // A parent that dies closes this pipe, and no proxy is left behind.
        let parent = async { tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await };
        tokio::select! {
            ended = control.run() => ended?,
            _ = parent => {}
        }
        Ok(())
    }
}
