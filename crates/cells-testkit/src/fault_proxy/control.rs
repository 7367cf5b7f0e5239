//! The proxy for other languages: a second loopback port that takes plain HTTP.
//!
//! The program `cells-fault-proxy 127.0.0.1:PORT` prints one JSON line `{"url":…,"control":…}` and runs until its
//! standard input ends, so that it never outlives its parent. Below the control URL:
//!
//! | request | does |
//! |---|---|
//! | `PUT /plan` | replaces the plan; body: a [`Plan`] as JSON |
//! | `GET /counts` | answers [`Counts`] as JSON |
//! | `DELETE /counts` | counts from zero again |
//! | `POST /refuse` | closes the port and every connection |
//! | `POST /listen` | opens the port again |

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::State,
    routing::{get, post, put},
};
use tokio::net::TcpListener;

use super::{Counts, FaultProxy, Plan};

/// The control port of a proxy.
#[derive(Debug)]
pub struct Control {
    listener: TcpListener,
    proxy: Arc<FaultProxy>,
}

impl Control {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn bind(proxy: Arc<FaultProxy>) -> io::Result<Control> {
        Ok(Control { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, proxy })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not know the address of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until it is dropped.
    ///
    /// # Errors
    /// When the port breaks.
    pub async fn run(self) -> io::Result<()> {
        let routes = Router::new()
            .route("/plan", put(set_plan))
            .route("/counts", get(counts).delete(reset_counts))
            .route("/refuse", post(refuse))
            .route("/listen", post(listen))
            .with_state(self.proxy);
        axum::serve(self.listener, routes).await
    }
}

async fn set_plan(State(proxy): State<Arc<FaultProxy>>, Json(plan): Json<Plan>) {
    proxy.set_plan(plan);
}

async fn counts(State(proxy): State<Arc<FaultProxy>>) -> Json<Counts> {
    Json(proxy.counts())
}

async fn reset_counts(State(proxy): State<Arc<FaultProxy>>) {
    proxy.reset_counts();
}

async fn refuse(State(proxy): State<Arc<FaultProxy>>) {
    proxy.refuse().await;
}

async fn listen(State(proxy): State<Arc<FaultProxy>>) {
    proxy.listen().await;
}
