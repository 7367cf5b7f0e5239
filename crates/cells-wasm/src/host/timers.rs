//! Timers on one callback. Every piece of a file and every call sets a timer and drops it soon after; a callback of its own
//! for each would be most of what they cost.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// Makes timers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Timers(Rc<Shared>);

struct Shared {
    set: Rc<RefCell<Vec<Timer>>>,
    next_id: Cell<u32>,
    on_fire: Closure<dyn FnMut(u32)>,
}

/// A timer that is set. There are few at a time.
struct Timer {
    id: u32,
    /// What to wake; `None` once it has fired.
    waker: Option<Waker>,
}

impl Timers {
    pub(super) fn new() -> Self {
        let set = Rc::<RefCell<Vec<Timer>>>::default();
        let fired = Rc::clone(&set);
        let on_fire = Closure::new(move |id| {
            let waker = {
                let mut set = fired.borrow_mut();
                set.iter_mut().find(|timer| timer.id == id).and_then(|timer| timer.waker.take())
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        Self(Rc::new(Shared { set, next_id: Cell::new(0), on_fire }))
    }

    /// A timer that starts when it is first polled.
    pub(super) fn sleep(&self, duration_ms: u64) -> Sleep {
        Sleep { shared: Rc::clone(&self.0), left_ms: duration_ms, set: None }
    }
}

/// A timer. Dropping it clears it.
pub(super) struct Sleep {
    shared: Rc<Shared>,
    /// What is left after the part that is set.
    left_ms: u64,
    /// Its id, and what JavaScript calls it.
    set: Option<(u32, JsValue)>,
}

impl Sleep {
    fn start(&mut self, waker: Waker) {
        let part_ms = i32::try_from(self.left_ms).unwrap_or(LONGEST_MS);
        self.left_ms -= u64::from(part_ms.unsigned_abs());
        let id = self.shared.next_id.get();
        self.shared.next_id.set(id.wrapping_add(1));
        self.shared.set.borrow_mut().push(Timer { id, waker: Some(waker) });
        self.set = Some((id, set_timeout(&self.shared.on_fire, part_ms, id)));
    }

    fn clear(&mut self) {
        let Some((id, handle)) = self.set.take() else { return };
        clear_timeout(&handle);
        self.shared.set.borrow_mut().retain(|timer| timer.id != id);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some((id, _)) = &self.set {
            let mut set = self.shared.set.borrow_mut();
            if let Some(waker) = set.iter_mut().find(|timer| timer.id == *id).and_then(|timer| timer.waker.as_mut()) {
                waker.clone_from(context.waker());
                return Poll::Pending;
            }
            drop(set);
            self.clear();
            if self.left_ms == 0 {
                return Poll::Ready(());
            }
        }
        self.start(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clear();
    }
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Closure<dyn FnMut(u32)>, delay_ms: i32, id: u32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(handle: &JsValue);
}

/// Longest delay a JavaScript timer takes; a longer one would fire at once.
const LONGEST_MS: i32 = i32::MAX;
