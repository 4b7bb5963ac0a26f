//! Partitions: whose is what, and what is asked of all of them.
//!
//! Each has a lane of its own on Redis, and in a cluster often a server. Whoever visits them one
//! after another waits for the sum of them, and for one that is away before all behind it: so all
//! are visited together, and what could be done elsewhere is done.

use futures_util::stream::{FuturesOrdered, StreamExt as _};

use crate::error::{Error, Result};

/// Partitions asked at the same time, at most.
const AT_ONCE: usize = 64;

/// What each answers, in order.
pub(crate) fn each<T, F: Future<Output = T>>(
    questions: impl IntoIterator<Item = F>,
) -> impl Future<Output = Vec<T>> {
    // Made before anything is waited for, so that what makes them need not be kept.
    let mut questions = questions.into_iter().collect::<Vec<F>>().into_iter();
    async move {
        let mut asked: FuturesOrdered<F> = questions.by_ref().take(AT_ONCE).collect();
        let mut answers = Vec::with_capacity(questions.len() + asked.len());
        while let Some(answer) = asked.next().await {
            answers.push(answer);
            asked.extend(questions.next());
        }
        answers
    }
}

/// What all of them answer; if one cannot, there is no answer. The others have done what they
/// were asked for all the same.
pub(crate) fn all<T, F: Future<Output = Result<T>>>(
    questions: impl IntoIterator<Item = F>,
) -> impl Future<Output = Result<Vec<T>>> {
    let answers = each(questions);
    async move {
        let (answers, failed) = apart(answers.await);
        failed.map(|()| answers)
    }
}

/// What those answer that can, and why others cannot. If none can, that is an error.
pub(crate) fn reached<T, F: Future<Output = Result<T>>>(
    questions: impl IntoIterator<Item = F>,
) -> impl Future<Output = Result<(Vec<T>, Result<()>)>> {
    let answers = each(questions);
    async move {
        match apart(answers.await) {
            (answers, Err(error)) if answers.is_empty() => Err(error),
            reached => Ok(reached),
        }
    }
}

/// Answers, and of several failures the one to tell: the first, but rather one that does not pass
/// by itself.
pub(crate) fn apart<T>(all: Vec<Result<T>>) -> (Vec<T>, Result<()>) {
    let mut answers = Vec::with_capacity(all.len());
    let mut failed: Result<()> = Ok(());
    for answer in all {
        match (answer, &failed) {
            (Ok(answer), _) => answers.push(answer),
            (Err(error), Err(known)) if !known.is_transient() || error.is_transient() => drop(error),
            (Err(error), _) => failed = Err(error),
        }
    }
    (answers, failed)
}

/// Asks for each item where it belongs, all partitions together; what became of each, in order.
/// `number` says in which of `of` an item is; `ask` is given the items of one, in order, and
/// answers for each.
pub(crate) fn split<I: Copy, T, F: Future<Output = Vec<Result<T>>>>(
    items: &[I],
    of: usize,
    number: impl Fn(&I) -> usize,
    ask: impl Fn(usize, Vec<I>) -> F,
) -> impl Future<Output = Vec<Result<T>>> {
    let mut places = vec![Vec::new(); of];
    for (place, item) in items.iter().enumerate() {
        places[number(item)].push(place);
    }
    let asked = places.iter().enumerate().filter(|(_, places)| !places.is_empty());
    let asked = asked.map(|(number, places)| ask(number, places.iter().map(|at| items[*at]).collect()));
    let answers = each(asked.collect::<Vec<_>>());
    let mut all: Vec<_> = items.iter().map(|_| None).collect();
    async move {
        let places = places.into_iter().filter(|places| !places.is_empty());
        for (places, answers) in places.zip(answers.await) {
            for (place, answer) in places.into_iter().zip(answers) {
                all[place] = Some(answer);
            }
        }
        let unanswered = || Err(Error::internal("an answer was due for each of several"));
        all.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

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
        assert_eq!(each((0..200).map(question)).await, (0..200).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), AT_ONCE);
    }

    async fn away(number: usize, away: &[usize]) -> Result<usize> {
        match away.contains(&number) {
            true => Err(Error::unavailable("away")),
            false => Ok(number),
        }
    }

    #[tokio::test]
    async fn one_that_is_away_keeps_nobody_from_answering() {
        let (answers, failed) = reached((0..4).map(|it| away(it, &[1]))).await.unwrap();
        assert_eq!((answers, failed.is_err()), (vec![0, 2, 3], true));
        assert!(reached((0..2).map(|it| away(it, &[0, 1]))).await.is_err());
        assert!(all((0..4).map(|it| away(it, &[1]))).await.is_err());
        assert_eq!(all((0..2).map(|it| away(it, &[]))).await.unwrap(), [0, 1]);
        assert_eq!(reached((0..0).map(|it| away(it, &[]))).await.unwrap().0.len(), 0);
    }

    /// Who only looks whether it passes by itself would never hear of the other.
    #[tokio::test]
    async fn what_does_not_pass_by_itself_is_told_before_what_does() {
        for corrupt in 0..3 {
            let question = |number: usize| async move {
                let transient = Error::unavailable("away");
                Err::<(), _>(if number == corrupt { Error::corrupt("a key") } else { transient })
            };
            assert!(!all((0..3).map(question)).await.unwrap_err().is_transient());
        }
    }

    #[tokio::test]
    async fn items_are_split_by_whose_they_are_and_answered_in_order() {
        let items: Vec<usize> = (0..100).rev().collect();
        let ask = |number: usize, items: Vec<usize>| async move {
            assert!(items.iter().all(|item| item % 7 == number) && items.is_sorted_by(|a, b| a > b));
            let answer = |item: usize| if number == 3 { Err(Error::unavailable("away")) } else { Ok(item) };
            items.into_iter().map(answer).collect()
        };
        let answers = split(&items, 7, |item| item % 7, ask).await;
        for (item, answer) in items.iter().zip(answers) {
            assert_eq!(answer.ok(), (item % 7 != 3).then_some(*item));
        }
        assert_eq!(split(&[], 7, |item| item % 7, ask).await.len(), 0);
        // Who answers for too few has failed.
        let answers = split(&[1, 2], 1, |_| 0, |_, _| async { vec![Ok(())] }).await;
        assert_eq!(answers.iter().map(|it| it.is_ok()).collect::<Vec<_>>(), [true, false]);
    }
}
