//! Blocks that are given back: whatever waits while some are written goes into the next transaction together. Workers have
//! thousands that are idle at the same time.

use std::future::Future;

use tokio::sync::{mpsc, oneshot};

use super::budget::{Return, Returned};
use crate::error::{Error, ErrorKind, Result};

/// Blocks that wait, at most; who comes then waits to wait.
const WAITING: usize = 4096;

/// Blocks in one transaction, at most: others who write wait for it.
const TOGETHER: usize = 256;

/// What takes blocks back.
pub(super) trait TakeBack: Send + 'static {
    /// Takes them back one after the other, in one transaction. An error is that nobody knows what became of them, or that
    /// none was taken.
    fn take_back(&mut self, blocks: Vec<Return>) -> impl Future<Output = Result<Vec<Returned>>> + Send;
}

struct Job {
    block: Return,
    reply: oneshot::Sender<Result<Returned>>,
}

/// Where blocks are given back.
#[derive(Debug, Clone)]
pub(super) struct Returns(mpsc::Sender<Job>);

impl Returns {
    /// Starts what writes; it ends when nobody is left who could give something back.
    pub(super) fn start(database: impl TakeBack) -> Self {
        let (jobs, receiver) = mpsc::channel(WAITING);
        tokio::spawn(run(database, receiver));
        Self(jobs)
    }

    pub(super) async fn give_back(&self, block: Return) -> Result<Returned> {
        let (reply, returned) = oneshot::channel();
        let ended = || Error::unavailable("the rules' database is closed");
        self.0.send(Job { block, reply }).await.map_err(|_| ended())?;
        returned.await.map_err(|_| ended())?
    }
}

async fn run(mut database: impl TakeBack, mut receiver: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    while receiver.recv_many(&mut jobs, TOGETHER).await > 0 {
        // Whoever does not wait any more will send it again.
        jobs.retain(|job| !job.reply.is_closed());
        let blocks: Vec<_> = jobs.iter().map(|job| job.block.clone()).collect();
        match database.take_back(blocks).await {
            Ok(returned) => {
                for (job, returned) in jobs.drain(..).zip(returned) {
                    let _ = job.reply.send(Ok(returned));
                }
            }
            Err(error) if jobs.len() == 1 || is_of_all(&error) => {
                for job in jobs.drain(..) {
                    let _ = job.reply.send(Err(error.again()));
                }
            }
            // What is wrong with one of them is nothing to the others.
            Err(_) => {
                for Job { block, reply } in jobs.drain(..) {
                    let returned = database.take_back(vec![block]).await;
                    let _ = reply.send(returned.and_then(|it| it.into_iter().next().ok_or_else(nothing)));
                }
            }
        }
    }
}

/// Whether the database, and not one of the blocks, is the reason.
fn is_of_all(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Full)
}

fn nothing() -> Error {
    Error::new(ErrorKind::Internal, "a block that was given back became nothing")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::{join_all, poll_immediate};
    use parking_lot::Mutex;
    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    /// The blocks of each transaction.
    type Taken = Arc<Mutex<Vec<Vec<u64>>>>;

    /// Takes so many steps as it is let to, and notes which blocks came together.
    struct Database {
        steps: Arc<Semaphore>,
        taken: Taken,
    }

    /// A block that nobody can take, and one that cannot be had now.
    const BAD: u64 = 6_666;
    const AWAY: u64 = 7_777;

    impl TakeBack for Database {
        async fn take_back(&mut self, blocks: Vec<Return>) -> Result<Vec<Returned>> {
            self.steps.acquire().await.unwrap().forget();
            self.taken.lock().push(blocks.iter().map(|it| it.number).collect());
            let has = |number| blocks.iter().any(|it| it.number == number);
            match () {
                () if has(BAD) => Err(Error::corrupt("a block stands like none")),
                () if has(AWAY) => Err(Error::unavailable("away")),
                () => Ok(blocks.iter().map(|_| Returned::Counted).collect()),
            }
        }
    }

    fn start() -> (Returns, Arc<Semaphore>, Taken) {
        let (steps, taken) = (Arc::new(Semaphore::new(0)), Taken::default());
        let database = Database { steps: Arc::clone(&steps), taken: Arc::clone(&taken) };
        (Returns::start(database), steps, taken)
    }

    fn block(number: u64) -> Return {
        Return { worker: "w".to_owned(), number, spent: 0 }
    }

    #[tokio::test]
    async fn those_that_wait_go_together() {
        let (returns, steps, taken) = start();
        let all = join_all((0..1000).map(|number| returns.give_back(block(number))));
        let stands_still = async {
            for _ in 0..1000 {
                yield_now().await;
            }
            steps.add_permits(1000);
        };
        let (all, ()) = tokio::join!(all, stands_still);
        assert!(all.into_iter().all(|it| it.is_ok_and(|it| it == Returned::Counted)));
        let taken = taken.lock();
        assert!(taken.len() <= 6, "{} transactions", taken.len());
        assert!(taken.iter().all(|it| it.len() <= TOGETHER));
        let mut all: Vec<_> = taken.iter().flatten().copied().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000), "each once");
    }

    #[tokio::test]
    async fn a_block_that_cannot_be_taken_is_nothing_to_the_others() {
        let (returns, steps, taken) = start();
        steps.add_permits(1000);
        let all = join_all([1, BAD, 2].map(|number| returns.give_back(block(number)))).await;
        assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(taken.lock().len(), 4);
        taken.lock().clear();
        let all = join_all([3, AWAY, 4].map(|number| returns.give_back(block(number)))).await;
        assert!(
            all.iter().all(Result::is_err) && taken.lock().len() == 1,
            "a database that is away is asked once"
        );
    }

    #[tokio::test]
    async fn who_does_not_wait_any_more_is_left_out() {
        let (returns, steps, taken) = start();
        let mut first = Box::pin(returns.give_back(block(1)));
        let mut given_up = Box::pin(returns.give_back(block(2)));
        let mut third = Box::pin(returns.give_back(block(3)));
        for it in [&mut first, &mut given_up, &mut third] {
            assert!(poll_immediate(it).await.is_none());
        }
        drop(given_up);
        steps.add_permits(1000);
        assert!(first.await.is_ok() && third.await.is_ok());
        assert_eq!(*taken.lock(), [[1, 3]]);
    }
}
