//! What is asked of every partition of a space: of many at a time, and past one that is
//! away.
//!
//! A partition has a lane of its own, and in a cluster often a server: whoever visits them
//! one after another waits for the sum of them, and for a dead one before all behind it.

use futures_util::stream::{FuturesOrdered, StreamExt as _};

use crate::error::Result;

/// Partitions asked at the same time, at most.
const AT_ONCE: usize = 64;

/// What each answered, in order.
pub(crate) async fn each<T, F: Future<Output = T>>(questions: Vec<F>) -> Vec<T> {
    let mut questions = questions.into_iter();
    let mut asked: FuturesOrdered<F> = questions.by_ref().take(AT_ONCE).collect();
    let mut answers = Vec::with_capacity(questions.size_hint().0 + asked.len());
    while let Some(answer) = asked.next().await {
        answers.push(answer);
        asked.extend(questions.next());
    }
    answers
}

/// What all of them answered; if one cannot, there is no answer.
pub(crate) async fn all<T, F: Future<Output = Result<T>>>(questions: Vec<F>) -> Result<Vec<T>> {
    each(questions).await.into_iter().collect()
}

/// What those answered that could, and why others could not. If none could, that is an
/// error.
pub(crate) async fn reached<T, F: Future<Output = Result<T>>>(
    questions: Vec<F>,
) -> Result<(Vec<T>, Result<()>)> {
    let (mut answers, mut failed) = (Vec::new(), Ok(()));
    for answer in each(questions).await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => failed = Err(error),
        }
    }
    match (answers.is_empty(), failed) {
        (true, Err(error)) => Err(error),
        (_, failed) => Ok((answers, failed)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    #[tokio::test]
    async fn many_are_asked_at_a_time_and_answer_in_order() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let question = async |number: usize| {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            // The later ones are ready first.
            for _ in number..200 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::Relaxed);
            number
        };
        assert_eq!(each((0..200).map(question).collect()).await, (0..200).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), AT_ONCE);
    }

    #[tokio::test]
    async fn one_that_is_away_keeps_nobody_from_answering() {
        let question = |away: &'static [usize]| {
            move |number: usize| async move {
                if away.contains(&number) {
                    return Err(Error::unavailable("away"));
                }
                Ok(number)
            }
        };
        let (answers, failed) = reached((0..4).map(question(&[1])).collect()).await.unwrap();
        assert_eq!((answers, failed.is_err()), (vec![0, 2, 3], true));
        assert!(reached((0..2).map(question(&[0, 1])).collect()).await.is_err());
        assert!(all((0..4).map(question(&[1])).collect()).await.is_err());
        assert_eq!(all((0..2).map(question(&[])).collect()).await.unwrap(), [0, 1]);
        assert_eq!(reached((0..0).map(question(&[])).collect()).await.unwrap().0.len(), 0);
    }
}
