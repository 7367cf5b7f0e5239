//! The budget of blocking file system work (`files-http.md` §1.6).

use std::sync::Arc;

use cells_protocol::limits::FILE_WORKERS_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// At most 16 jobs at a time; others wait, at the cost of their own deadline.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    slots: Arc<Semaphore>,
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(FILE_WORKERS_MAX)) }
    }

    /// Waits for a worker. It is busy until the slot is dropped.
    pub(crate) async fn slot(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Refusal::IO)
    }

    /// Runs `job` on a thread that may block. A job that is still running at its deadline keeps its slot until it ends.
    pub(crate) async fn run<T, F>(&self, deadline: Deadline, job: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        let work = async {
            let slot = self.slot().await?;
            let job = move || {
                let result = job();
                drop(slot);
                result
            };
            spawn_blocking(job).await.map_err(|_| Refusal::IO)?
        };
        deadline.bound(work).await?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::http::{HeaderMap, HeaderValue};

    use super::*;

    fn deadline(ms: &'static str) -> Deadline {
        let headers = HeaderMap::from_iter([("x-timeout-ms".parse().unwrap(), HeaderValue::from_static(ms))]);
        Deadline::start(&headers).unwrap()
    }

    #[tokio::test]
    async fn a_job_waits_for_a_free_worker_until_its_deadline() {
        let workers = Workers::new();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let (started, mut all_started) = tokio::sync::mpsc::channel(FILE_WORKERS_MAX);
        let busy: Vec<_> = (0..FILE_WORKERS_MAX)
            .map(|_| {
                let (workers, released, started) = (workers.clone(), Arc::clone(&released), started.clone());
                tokio::spawn(async move {
                    let job = move || {
                        started.blocking_send(()).unwrap();
                        released.lock().unwrap().recv().unwrap();
                        Ok(())
                    };
                    workers.run(deadline("30000"), job).await
                })
            })
            .collect();
        for _ in 0..FILE_WORKERS_MAX {
            all_started.recv().await.unwrap();
        }

        assert_eq!(workers.run(deadline("1"), || Ok(())).await, Err(Refusal::TIMED_OUT));
        for _ in 0..FILE_WORKERS_MAX {
            release.send(()).unwrap();
        }
        for job in busy {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert_eq!(workers.run(deadline("30000"), || Ok(7)).await, Ok(7));
    }
}
