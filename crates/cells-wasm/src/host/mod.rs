//! The driver's platform in JavaScript: fetch, timers, the microtask queue, the clock and cryptographic randomness.

mod body;
mod fetch;
mod reads;
mod timers;

use cells_driver::host::{Host, HostError, HostFuture, HttpRequest, HttpResponse};
use js_sys::{Date, Function, Promise, Uint8Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};
use wasm_bindgen_futures::JsFuture;

pub(crate) use body::JsBytes;
pub(crate) use fetch::JsContent;

use timers::Timers;

/// A [`Host`] for browsers, workers and Node.
pub struct WebHost {
    fetch: Option<Function>,
    timers: Timers,
}

impl WebHost {
    /// Sends with `fetch`, called as `fetch(url, init)`; without one, with the global function of that name.
    pub fn new(fetch: Option<Function>) -> Self {
        Self { fetch, timers: Timers::new() }
    }
}

impl Host for WebHost {
    fn send(&self, request: HttpRequest) -> HostFuture<'static, Result<HttpResponse, HostError>> {
        Box::pin(fetch::send(self.fetch.clone(), request))
    }

    fn streams_requests(&self) -> bool {
        false
    }

    fn sleep(&self, duration_ms: u64) -> HostFuture<'static, ()> {
        Box::pin(self.timers.sleep(duration_ms))
    }

    fn turn_end(&self) -> HostFuture<'static, ()> {
        Box::pin(async {
            // The value does not matter; the wait is one trip through the microtask queue.
            let _ = JsFuture::from(Promise::resolve(&JsValue::UNDEFINED)).await;
        })
    }

    fn now_ms(&self) -> u64 {
        // Wall time can be set back, and `performance` may stand still while the machine sleeps: neither may make a deadline
        // come late, or what was sent seem younger than it is.
        let since_start = PERFORMANCE.with(|clock| clock.as_ref().map(|clock| clock.time_origin() + clock.now()));
        since_start.unwrap_or(f64::NAN).max(Date::now()) as u64
    }

    fn fill_random(&self, buffer: &mut [u8]) -> Result<(), HostError> {
        for part in buffer.chunks_mut(RANDOM_MAX_BYTES) {
            let bytes = Uint8Array::new_with_length(u32::try_from(part.len()).unwrap_or(0));
            get_random_values(&bytes).map_err(|_| HostError::NoRandomness)?;
            bytes.copy_to(part);
        }
        Ok(())
    }
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = crypto, js_name = getRandomValues)]
    fn get_random_values(bytes: &Uint8Array) -> Result<JsValue, JsValue>;

    type Performance;
    #[wasm_bindgen(thread_local_v2, js_name = performance)]
    static PERFORMANCE: Option<Performance>;
    #[wasm_bindgen(method, getter, js_name = timeOrigin)]
    fn time_origin(this: &Performance) -> f64;
    #[wasm_bindgen(method)]
    fn now(this: &Performance) -> f64;
}

/// Most bytes `crypto.getRandomValues` gives in one call.
const RANDOM_MAX_BYTES: usize = 65_536;
