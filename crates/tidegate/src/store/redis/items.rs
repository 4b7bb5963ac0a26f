//! The calls of a batch as items of a script: one each, or one of several that are joined.

use redis::Value;
use smallvec::{SmallVec, smallvec};

use super::call::{Args, Call};
use crate::error::{Error, Result};

/// How calls of one item that wait together, on the same keys, become one item, and how its answer becomes theirs. Who
/// makes the calls says so: what is in arguments and answers is not known here.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The arguments of an item that does what all of these do, and in which order it has them, by their numbers.
    pub(crate) join: fn(&[&Args]) -> (Args, Vec<usize>),
    /// What so many are answered of what their item was answered, in the order in which it has them. What is to be noted
    /// once is in one of them.
    pub(crate) split: fn(&Value, usize) -> Result<Vec<Value>>,
}

#[derive(Debug)]
struct Item<'a> {
    first: &'a Call,
    /// By their numbers, in the order in which the item has them.
    calls: SmallVec<[usize; 1]>,
    /// If there are several.
    joined: Option<Args>,
}

/// The items of a batch.
#[derive(Debug)]
pub(super) struct Items<'a> {
    items: Vec<Item<'a>>,
    calls: usize,
}

impl<'a> Items<'a> {
    pub(super) fn of(calls: impl ExactSizeIterator<Item = &'a Call> + Clone) -> Self {
        let mut items: Vec<Item<'a>> = Vec::with_capacity(calls.len());
        for (number, call) in calls.clone().enumerate() {
            let same = call.joining.and_then(|_| items.iter_mut().find(|it| it.first.is_joined_with(call)));
            match same {
                Some(item) => item.calls.push(number),
                None => items.push(Item { first: call, calls: smallvec![number], joined: None }),
            }
        }
        let count = calls.len();
        if items.len() < count {
            let calls: Vec<&Call> = calls.collect();
            items.iter_mut().filter(|it| it.calls.len() > 1).for_each(|it| it.join(&calls));
        }
        Self { items, calls: count }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flat_map(|it| &it.first.item_keys).map(|key| &**key)
    }

    pub(super) fn args(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flat_map(|it| it.joined.as_ref().unwrap_or(&it.first.item_args)).map(|arg| &**arg)
    }

    /// What each call is answered, by what the items were: an item that failed answers the error's text, and all of its
    /// calls did.
    pub(super) fn answers(&self, replies: Vec<Value>) -> Vec<Result<Value>> {
        let mut answers: Vec<Result<Value>> = Vec::new();
        answers.resize_with(self.calls, || Err(Error::internal("a call has no answer")));
        for (item, reply) in self.items.iter().zip(replies) {
            for (number, answer) in item.calls.iter().zip(item.answers(reply)) {
                answers[*number] = answer;
            }
        }
        answers
    }
}

impl Item<'_> {
    fn join(&mut self, calls: &[&Call]) {
        let Some(joining) = self.first.joining else { return };
        let args: Vec<&Args> = self.calls.iter().map(|number| &calls[*number].item_args).collect();
        let (joined, order) = (joining.join)(&args);
        self.calls = order.into_iter().map(|at| self.calls[at]).collect();
        self.joined = Some(joined);
    }

    fn answers(&self, reply: Value) -> Vec<Result<Value>> {
        let count = self.calls.len();
        let split = |joining: &Joining, reply| {
            let answers = (joining.split)(&reply, count)?;
            let is_one_each = answers.len() == count;
            is_one_each.then_some(answers).ok_or_else(|| {
                Error::internal(format!("{count} calls that were joined were answered with {reply:?}"))
            })
        };
        let answers = succeeded(reply).and_then(|reply| match self.first.joining.filter(|_| count > 1) {
            Some(joining) => split(joining, reply),
            None => Ok(vec![reply]),
        });
        match answers {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }
}

/// A script answers an item that failed with the error's text.
fn succeeded(reply: Value) -> Result<Value> {
    match reply {
        Value::BulkString(text) => Err(super::failure::server_failure(&String::from_utf8_lossy(&text))),
        Value::SimpleString(text) => Err(super::failure::server_failure(&text)),
        reply => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use compact_str::{CompactString, ToCompactString as _};

    use super::super::script::Script;
    use super::*;

    static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(&[]));

    /// Numbers, the largest first; the answer says of each how often it was found.
    static NUMBERS: Joining = Joining {
        join: |args| {
            let mut order: Vec<usize> = (0..args.len()).collect();
            order.sort_by_key(|at| std::cmp::Reverse(args[*at][0].clone()));
            let texts: Vec<&str> = order.iter().map(|at| args[*at][0].as_str()).collect();
            (Args::from_iter([texts.join("+").to_compact_string()]), order)
        },
        split: |value, _| match value {
            Value::Array(each) => Ok(each.clone()),
            _ => Err(Error::internal("no list")),
        },
    };

    fn call(key: &str, number: &str) -> Call {
        Call::new(&SCRIPT).key(key.to_owned()).arg(number).joining(&NUMBERS)
    }

    fn int(number: i64) -> Value {
        Value::Int(number)
    }

    #[test]
    fn calls_on_the_same_keys_are_one_item_and_each_has_its_own_answer() {
        let alone = Call::new(&SCRIPT).key("a".to_owned()).arg("9");
        let calls = [call("a", "1"), call("b", "2"), alone.clone(), call("a", "3"), alone, call("a", "2")];
        let items = Items::of(calls.iter());
        assert_eq!(items.keys().collect::<Vec<_>>(), ["a", "b", "a", "a"]);
        assert_eq!(items.args().collect::<Vec<_>>(), ["3+2+1", "2", "9", "9"]);
        let replies = vec![Value::Array(vec![int(33), int(22), int(11)]), int(2), int(8), int(9)];
        let answers: Vec<_> = items.answers(replies).into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, [int(11), int(2), int(8), int(33), int(9), int(22)]);
    }

    #[test]
    fn an_error_of_an_item_is_one_of_each_of_its_calls() {
        let calls = [call("a", "1"), call("b", "2"), call("a", "3")];
        let items = Items::of(calls.iter());
        let failed = |replies| -> Vec<bool> { items.answers(replies).iter().map(Result::is_err).collect() };
        let text = Value::BulkString(b"a page cannot be read".to_vec());
        let answers = items.answers(vec![text.clone(), int(2)]);
        assert!(
            answers[2].as_ref().is_err_and(|it| it.to_string().contains("cannot be read")),
            "{answers:?}"
        );
        assert_eq!(failed(vec![text, int(2)]), [true, false, true]);
        assert_eq!(failed(vec![int(1), int(2)]), [true, false, true], "what cannot be split");
        assert_eq!(failed(vec![Value::Array(vec![int(1)]), int(2)]), [true, false, true], "one is missing");
    }

    #[test]
    fn calls_that_say_nothing_of_joining_are_items_of_their_own() {
        let one = || Call::new(&SCRIPT).keys(["a".to_owned()]).args([CompactString::from("1")]);
        assert_eq!(Items::of([one(), one()].iter()).len(), 2);
    }
}
