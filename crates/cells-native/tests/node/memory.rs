//! How much of a file is held while it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cells_driver::{
    Connection, FileConnection, FileMutationOptions, OperationOptions, ReplaceCondition, Secret, Upload,
};
use futures::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A piece that counts as held until the last handle to it is gone.
struct Piece {
    bytes: Vec<u8>,
    held: Arc<Held>,
}

#[derive(Default)]
struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
    in_all: AtomicUsize,
}

impl Piece {
    fn make(n_bytes: usize, held: &Arc<Held>) -> Bytes {
        let now = held.now.fetch_add(n_bytes, Ordering::SeqCst) + n_bytes;
        held.most.fetch_max(now, Ordering::SeqCst);
        held.in_all.fetch_add(n_bytes, Ordering::SeqCst);
        Bytes::from_owner(Self { bytes: vec![0x5a; n_bytes], held: Arc::clone(held) })
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.held.now.fetch_sub(self.bytes.len(), Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_to_a_slow_node_holds_at_most_one_mebibyte() {
    const SIZE: usize = 24 * 1024 * 1024;
    for piece in [16 * 1024, 256 * 1024] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let node = tokio::spawn(slow_node(listener));
        let client = cells_native::spawn(Default::default()).unwrap();
        client.set_credential("office", Secret::new("key-0123456789"));
        let connection = FileConnection::new(Connection::new(endpoint, "office"), "notes");
        let storage = client.file_storage(&connection, OperationOptions::default()).await.unwrap();

        let held = Arc::<Held>::default();
        let source = Arc::clone(&held);
        let pieces = stream::iter((0..SIZE / piece).map(move |_| Ok(Piece::make(piece, &source))));
        let content = Upload::stream(Some(SIZE as u64), pieces);
        let options = FileMutationOptions::default();
        let writes = storage.mutations().unwrap();
        writes.replace("large", content, ReplaceCondition::CreateOnly, options).await.unwrap();

        assert_eq!(node.await.unwrap(), SIZE);
        assert_eq!(held.in_all.load(Ordering::SeqCst), SIZE);
        let most = held.most.load(Ordering::SeqCst);
        assert!(most >= piece && most <= 1024 * 1024, "{most} bytes were held, in pieces of {piece}");
    }
}

/// Answers what opening an export asks, and then a PUT whose body it reads slowly. Gives the number of bytes it read.
async fn slow_node(listener: TcpListener) -> usize {
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        while let Some((head, rest)) = read_head(&mut connection).await {
            let body = match head.split(' ').nth(1).unwrap() {
                "/v1/exports" => {
                    r#"{"version":1,"exports":[{"alias":"notes","access":"rw","nameSemantics":"source","strongRevision":true}]}"#
                }
                "/v1/capabilities" => {
                    respond(&mut connection, "404 Not Found", "").await;
                    continue;
                }
                _ => {
                    let n_bytes = read_slowly(&mut connection, &head, rest).await;
                    let receipt = r#"{"outcome":"committed","result":{"kind":"file"}}"#;
                    respond(&mut connection, "200 OK", receipt).await;
                    return n_bytes;
                }
            };
            respond(&mut connection, "200 OK", body).await;
        }
    }
}

/// The head of the next request, and how much of the body came with it; `None` when the connection was closed.
async fn read_head(connection: &mut TcpStream) -> Option<(String, usize)> {
    let mut read = Vec::new();
    loop {
        if connection.read_buf(&mut read).await.unwrap() == 0 {
            return None;
        }
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            return Some((String::from_utf8(read[..at].to_vec()).unwrap(), read.len() - at - 4));
        }
    }
}

async fn read_slowly(connection: &mut TcpStream, head: &str, n_read: usize) -> usize {
    let header = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned);
    let length: usize = head.lines().find_map(header).expect("a length").parse().unwrap();
    let mut n_bytes = n_read;
    let mut buffer = vec![0; 64 * 1024];
    while n_bytes < length {
        // Long enough for the client to read ahead as far as it will.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let n = connection.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the body ended early");
        n_bytes += n;
    }
    n_bytes
}

async fn respond(connection: &mut TcpStream, status: &str, body: &str) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
}
