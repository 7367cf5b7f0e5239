//! One request, from the client to the node and back, with the fault the plan gives it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Either};
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    header::{CONNECTION, HeaderName},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::sleep};

use super::{
    Shared,
    plan::{Asked, Fault},
    wire::{Wire, WireStream},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves the requests of one client connection until either side ends it.
pub(super) async fn serve(io: TokioIo<WireStream>, wire: Arc<Wire>, shared: Arc<Shared>) {
    let service = service_fn(|request| answer(request, wire.clone(), shared.clone()));
    // How a connection ended is the client's business: that is what it is here to notice.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

/// An error ends the connection without a reply.
async fn answer(
    request: Request<Incoming>,
    wire: Arc<Wire>,
    shared: Arc<Shared>,
) -> Result<Response<Either<Incoming, FaultyBody>>, Failure> {
    let fault = count_and_decide(&request, &shared);
    let mut cut_at = None;
    match fault {
        Some(Fault::Refuse) => {
            shared.count_fault();
            wire.reset_on_drop();
            shared.listening.send_replace(false);
            return Err("refused by the plan".into());
        }
        Some(Fault::ResetBefore) => {
            shared.count_fault();
            wire.reset_on_drop();
            return Err("reset by the plan, before the node".into());
        }
        Some(Fault::ResetWithin { at }) => cut_at = Some(at),
        Some(Fault::DelayRequest { ms }) => {
            shared.count_fault();
            sleep(Duration::from_millis(ms)).await;
        }
        Some(Fault::ResetAfter | Fault::Truncate { .. } | Fault::Corrupt { .. } | Fault::DelayReply { .. }) | None => {}
    }

    shared.state().counts.forwarded += 1;
    // A node that is gone looks to the client as it would without a proxy: the connection breaks.
    let request = request.map(|inner| CutBody { inner, cut_at, is_cut: false, shared: shared.clone() });
    let reply = ask_node(request, &shared).await.inspect_err(|_| wire.reset_on_drop())?;
    let faulty = |reply: Response<Incoming>, change, left| {
        let (wire, shared) = (wire.clone(), shared.clone());
        Ok(reply.map(|inner| Either::Right(FaultyBody { inner, change, left, wire, shared, cut: None })))
    };
    match fault {
        Some(Fault::ResetAfter) => {
            let read = reply.into_body().collect().await;
            shared.count_fault();
            wire.reset_on_drop();
            Err(read.map_or_else(Failure::from, |_| "reset by the plan, after the node".into()))
        }
        Some(Fault::Truncate { at }) => faulty(reply, Change::Truncate, at),
        Some(Fault::Corrupt { at, xor }) => faulty(reply, Change::Xor(xor), at),
        Some(Fault::DelayReply { ms }) => {
            shared.count_fault();
            sleep(Duration::from_millis(ms)).await;
            Ok(reply.map(Either::Left))
        }
        Some(Fault::Refuse | Fault::ResetBefore | Fault::ResetWithin { .. } | Fault::DelayRequest { .. }) | None => {
            Ok(reply.map(Either::Left))
        }
    }
}

fn count_and_decide(request: &Request<Incoming>, shared: &Shared) -> Option<Fault> {
    let asked = Asked {
        method: request.method().as_str(),
        path: request.uri().path(),
        tool: request.headers().get(MCP_NAME).and_then(|name| name.to_str().ok()),
    };
    let mut state = shared.state();
    state.counts.requests += 1;
    *state.counts.paths.entry(format!("{} {}", asked.method, asked.path)).or_default() += 1;
    if let Some(tool) = asked.tool {
        *state.counts.tools.entry(tool.to_owned()).or_default() += 1;
    }
    state.matcher.decide(&asked)
}

/// Sends the request on a connection of its own. Dropping the reply closes that connection, which tells the node.
async fn ask_node(mut request: Request<CutBody>, shared: &Shared) -> Result<Response<Incoming>, Failure> {
    let stream = TcpStream::connect(shared.upstream).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    request.headers_mut().remove(CONNECTION);
    let mut reply = sender.send_request(request).await?;
    reply.headers_mut().remove(CONNECTION);
    Ok(reply)
}

/// A request body that may break off.
#[derive(Debug)]
struct CutBody {
    inner: Incoming,
    /// Bytes until the cut.
    cut_at: Option<u64>,
    /// Everything before the cut was handed out, and there was more.
    is_cut: bool,
    shared: Arc<Shared>,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if self.is_cut && self.cut_at.take().is_some() {
            // Once more, so that what was handed out is written before the connection ends.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.is_cut {
            self.shared.count_fault();
            return Poll::Ready(Some(Err("cut by the plan, within the request".into())));
        }
        let Some(left) = self.cut_at else {
            return Pin::new(&mut self.inner).poll_frame(cx).map_err(Failure::from);
        };
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)?) else { return Poll::Ready(None) };
        let Ok(mut data) = frame.into_data() else { return Poll::Ready(None) };
        match usize::try_from(left).ok().filter(|left| *left < data.len()) {
            None => self.cut_at = Some(left - data.len() as u64),
            Some(left) => {
                data.truncate(left);
                self.is_cut = true;
            }
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        !self.is_cut && self.inner.is_end_stream()
    }

    /// The node is promised the whole body.
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Truncate,
    Xor(u8),
}

/// A reply body that is changed at one offset.
#[derive(Debug)]
struct FaultyBody {
    inner: Incoming,
    change: Change,
    /// Bytes until the change.
    left: u64,
    wire: Arc<Wire>,
    shared: Arc<Shared>,
    /// Set when the last byte before the cut was handed out: the flushes of the socket at that time.
    cut: Option<u64>,
}

impl FaultyBody {
    /// Waits until the client's socket has everything before the cut, then ends the connection.
    fn poll_cut(&self, seen: u64, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        ready!(self.wire.poll_flushed_since(seen, cx));
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())))
    }

    fn change(&mut self, mut data: Bytes) -> Bytes {
        let Some(at) = usize::try_from(self.left).ok().filter(|at| *at < data.len()) else {
            self.left -= data.len() as u64;
            return data;
        };
        self.shared.count_fault();
        match self.change {
            Change::Truncate => {
                self.cut = Some(self.wire.flushes());
                data.truncate(at);
                data
            }
            Change::Xor(bits) => {
                self.left = u64::MAX; // once
                let mut changed = BytesMut::from(data);
                changed[at] ^= bits;
                changed.freeze()
            }
        }
    }
}

impl Body for FaultyBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(seen) = self.cut {
            return self.poll_cut(seen, cx);
        }
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)?) else { return Poll::Ready(None) };
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        let data = self.change(data);
        match self.cut {
            Some(seen) if data.is_empty() => self.poll_cut(seen, cx),
            Some(_) | None => Poll::Ready(Some(Ok(Frame::data(data)))),
        }
    }
}

const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
