//! Runs over HTTP, as a caller sees them.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::run::{
    Attempt, Failure, FailureNoted, Finished, Hour, Interruption, Listed, Processed, Progress, Refusal, Run,
    RunFailure, RunOptions, RunState, Started, Task, TaskStarted, Update, Updated,
};
use tidegate::testkit::run::{Face, Granted, Kit, START_MS, history};
use tidegate::testkit::unique;
use tidegate::{Cursor, Name, Page, Result, run_conformance};

use super::{Fields, OverHttp, agrees_with_the_model, checked, encoded};
use crate::support::{self, Fixture, settings};

run_conformance!(over_http, OverHttp::in_memory());
agrees_with_the_model!(history::check);

impl Kit for OverHttp {
    type Face = Client;

    async fn fresh(&self, options: RunOptions) -> Client {
        let ms = |lasting: Duration| format!("{}ms", lasting.as_millis());
        let written = [
            format!("prefix={}", options.prefix),
            format!("state_ttl={}", ms(options.state_ttl)),
            format!("max_runs={}", options.max_runs),
            format!("max_fields={}", options.max_fields),
            format!("max_field_name_bytes={}", options.max_field_name_bytes),
            format!("max_field_value_bytes={}", options.max_field_value_bytes),
            format!("max_processed={}", options.max_processed),
            format!("max_failures={}", options.max_failures),
            format!("max_reason_bytes={}", options.max_reason_bytes),
            format!("max_tasks={}", options.max_tasks),
            format!("cleanup_interval={}", ms(options.cleanup_interval)),
            format!("batch={}", options.batch),
        ];
        let written = written.map(|it| format!("main.{it}"));
        let mut settings = settings("runs", &written.each_ref().map(String::as_str));
        settings.store.options.namespace = Some(Name::new(&unique("r")).unwrap());
        Client(Fixture::of(&self.0, &settings, Timestamp::from_millis(START_MS)).await)
    }

    fn is_partitioned(&self) -> bool {
        self.0.starts_with("redis-cluster")
    }
}

pub(super) struct Client(Fixture);

impl Client {
    async fn ask(&self, method: &str, path: &str, body: &Value) -> support::Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.0.call(method, &format!("/v1/runs/main{path}"), &body).await
    }

    /// The fields of what was granted, or why it was not.
    async fn granted(&self, method: &str, path: &str, body: Value) -> Result<Granted<(u16, Fields)>> {
        let answer = self.ask(method, path, &body).await;
        match refusal(&answer) {
            Some(refusal) => Ok(Err(refusal)),
            None => checked(&answer).map(|body| Ok((answer.status.as_u16(), of_space(body)))),
        }
    }

    /// The same of a run, which the answer names.
    async fn of_run(
        &self,
        method: &str,
        run: &str,
        what: &str,
        body: Value,
    ) -> Result<Granted<(u16, Fields)>> {
        let path = format!("/runs/{}{what}", encoded(run));
        Ok(self.granted(method, &path, body).await?.map(|(status, mut body)| {
            assert_eq!(body.text("run"), run);
            (status, body)
        }))
    }

    async fn failures_at(
        &self,
        path: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Page<RunFailure>>> {
        let answer =
            self.granted("GET", &format!("{path}?{}", page_query(after, limit)), Value::Null).await?;
        Ok(answer.map(|(_, body)| page(body, "failures", run_failure)))
    }
}

/// Every answer names its space.
fn of_space(body: Value) -> Fields {
    let mut body = Fields::of(body);
    assert_eq!(body.text("space"), "main");
    body
}

fn in_attempt(what: &str, attempt: Option<Attempt>) -> String {
    attempt.map_or(what.to_owned(), |attempt| format!("{what}?attempt={attempt}"))
}

fn page_query(after: Option<&Cursor>, limit: usize) -> String {
    let after = after.map(|it| format!("&cursor={}", encoded(&it.to_string()))).unwrap_or_default();
    format!("limit={limit}{after}")
}

fn page<T>(mut body: Fields, name: &str, row: impl Fn(Fields) -> T) -> Page<T> {
    let items = body.list(name).into_iter().map(row).collect();
    let next = body.take("next");
    let next = (!next.is_null()).then(|| next.as_str().unwrap().parse().unwrap());
    body.end();
    Page { items, next }
}

/// Why a call changed nothing, if it was refused, with what it says beside.
fn refusal(answer: &support::Answer) -> Option<Refusal> {
    let body = (!answer.status.is_success()).then(|| answer.json())?;
    let name = body["refusal"].as_str()?;
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let attempt = || Attempt::new(body["attempt"].as_u64().unwrap());
    let state = || body["state"].as_str().unwrap().parse().unwrap();
    let refusal = match name {
        "unknown" => Refusal::Unknown,
        "ended" => Refusal::Ended { state: state(), attempt: attempt() },
        "stale" => Refusal::Stale { current: attempt() },
        "live" => Refusal::Live { state: state(), attempt: attempt() },
        "full" => Refusal::Full { taken: body["taken"].as_u64().unwrap() },
        "unknown_task" => Refusal::UnknownTask,
        "too_many_fields" => Refusal::TooManyFields,
        "too_many_tasks" => Refusal::TooManyTasks,
        "too_many_runs" => Refusal::TooManyRuns,
        _ => panic!("{body}"),
    };
    let interruption = match refusal {
        Refusal::Unknown => Some(Interruption::Unknown),
        Refusal::Ended { state, attempt } => Some(Interruption::Ended { state, attempt }),
        Refusal::Stale { current } => Some(Interruption::Stale { current }),
        _ => None,
    };
    let refusal = match (interruption, body["taken"].as_u64()) {
        (Some(by), Some(taken)) => Refusal::Interrupted { taken, by },
        _ => refusal,
    };
    assert_eq!(body["detail"], refusal.to_string());
    Some(refusal)
}

fn moment(body: &mut Fields, name: &str) -> Timestamp {
    Timestamp::from_millis(body.number(name))
}

fn optional_moment(body: &mut Fields, name: &str) -> Option<Timestamp> {
    body.optional(name).map(Timestamp::from_millis)
}

fn attempt(body: &mut Fields) -> Attempt {
    Attempt::new(body.number("attempt"))
}

fn state(body: &mut Fields) -> RunState {
    body.text("state").parse().unwrap()
}

fn started((status, mut body): (u16, Fields)) -> Started {
    let (attempt, state, is_new) = (attempt(&mut body), state(&mut body), body.flag("is_new"));
    assert_eq!(status, if is_new { 201 } else { 200 });
    body.end();
    Started { attempt, state, is_new }
}

fn listed(mut body: Fields) -> Listed {
    let listed = Listed {
        id: body.text("run"),
        state: state(&mut body),
        attempt: attempt(&mut body),
        started_at: moment(&mut body, "started_at_ms"),
        updated_at: moment(&mut body, "updated_at_ms"),
        finished_at: optional_moment(&mut body, "finished_at_ms"),
        ends_at: moment(&mut body, "ends_at_ms"),
        total: body.optional("total"),
    };
    body.end();
    listed
}

fn task(mut body: Fields) -> Task {
    let duration_ms = body.optional("duration_ms");
    let task = Task {
        name: body.text("task"),
        attempt: attempt(&mut body),
        started_at: moment(&mut body, "started_at_ms"),
        finished_at: optional_moment(&mut body, "finished_at_ms"),
    };
    assert_eq!(task.duration().map(|it| it.as_millis() as u64), duration_ms);
    body.end();
    task
}

fn run_failure(mut body: Fields) -> RunFailure {
    let run = body.text("run");
    let failure = Failure {
        item: body.text("item"),
        reason: body.text("reason"),
        count: body.number("count"),
        first_at: moment(&mut body, "first_at_ms"),
        last_at: moment(&mut body, "last_at_ms"),
        to_retry: body.flag("to_retry"),
    };
    body.end();
    RunFailure { run, failure }
}

/// Those of one run.
fn of_one(page: Page<RunFailure>, run: &str) -> Page<Failure> {
    let items = page.items.into_iter().map(|it| {
        assert_eq!(it.run, run);
        it.failure
    });
    Page { items: items.collect(), next: page.next }
}

impl Face for Client {
    fn clock(&self) -> &ManualClock {
        &self.0.clock
    }

    async fn start(&self, run: &str) -> Result<Granted<Started>> {
        Ok(self.of_run("PUT", run, "", Value::Null).await?.map(started))
    }

    async fn get(&self, run: &str) -> Result<Option<Run>> {
        let (_, mut body) = match self.of_run("GET", run, "", Value::Null).await? {
            Ok(found) => found,
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Unknown);
                return Ok(None);
            }
        };
        let fields = body.take("fields");
        let fields = fields.as_object().unwrap().iter();
        let found = Run {
            id: run.to_owned(),
            state: state(&mut body),
            attempt: attempt(&mut body),
            started_at: moment(&mut body, "started_at_ms"),
            attempt_started_at: moment(&mut body, "attempt_started_at_ms"),
            updated_at: moment(&mut body, "updated_at_ms"),
            finished_at: optional_moment(&mut body, "finished_at_ms"),
            ends_at: moment(&mut body, "ends_at_ms"),
            total: body.optional("total"),
            fields: fields.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
        };
        body.end();
        Ok(Some(found))
    }

    async fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Listed>> {
        let state = state.map(|state| format!("state={state}&")).unwrap_or_default();
        let path = format!("?{state}{}", page_query(after, limit));
        let (_, body) = self.granted("GET", &path, Value::Null).await?.unwrap();
        Ok(page(body, "runs", listed))
    }

    async fn update(&self, run: &str, attempt: Option<Attempt>, update: &Update) -> Result<Granted<Updated>> {
        let state = update.state.map(RunState::as_str);
        let body = json!({"state": state, "fields": update.fields, "total": update.total});
        let answer = self.of_run("POST", run, &in_attempt("/update", attempt), body).await?;
        Ok(answer.map(|(_, mut body)| {
            let (attempt, state) = (self::attempt(&mut body), self::state(&mut body));
            let updated = Updated { attempt, state, ends_at: moment(&mut body, "ends_at_ms") };
            body.end();
            updated
        }))
    }

    async fn finish(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Result<Granted<Finished>> {
        let body = json!({"state": state.as_str()});
        let answer = self.of_run("POST", run, &in_attempt("/finish", attempt), body).await?;
        Ok(answer.map(|(_, mut body)| {
            let (attempt, state) = (self::attempt(&mut body), self::state(&mut body));
            let finished = Finished { attempt, state, is_new: body.flag("is_new") };
            body.end();
            finished
        }))
    }

    async fn retry(&self, run: &str, from: Attempt) -> Result<Granted<Started>> {
        let body = json!({"from_attempt": from.get()});
        Ok(self.of_run("POST", run, "/retry", body).await?.map(started))
    }

    async fn expire(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> Result<Granted<Timestamp>> {
        let body = json!({"lasting_ms": after.as_millis() as u64});
        let answer = self.of_run("POST", run, &in_attempt("/expire", attempt), body).await?;
        Ok(answer.map(|(_, mut body)| {
            let at = moment(&mut body, "ends_at_ms");
            body.end();
            at
        }))
    }

    async fn delete(&self, run: &str, attempt: Option<Attempt>) -> Result<Granted<()>> {
        let answer =
            self.ask("DELETE", &in_attempt(&format!("/runs/{}", encoded(run)), attempt), &Value::Null).await;
        let refusal = refusal(&answer);
        if refusal.is_none() && answer.status != 204 {
            return checked(&answer).map(|body| panic!("{body}"));
        }
        Ok(refusal.map_or(Ok(()), Err))
    }

    async fn processed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        items: &[&str],
    ) -> Result<Granted<Processed>> {
        let answer =
            self.of_run("POST", run, &in_attempt("/processed", attempt), json!({"items": items})).await?;
        Ok(answer.map(|(_, mut body)| {
            let processed = Processed { new: body.number("new"), processed: body.number("processed") };
            body.end();
            processed
        }))
    }

    async fn is_processed(&self, run: &str, items: &[&str]) -> Result<Granted<Vec<bool>>> {
        let answer = self.of_run("POST", run, "/is_processed", json!({"items": items})).await?;
        Ok(answer.map(|(_, mut body)| {
            let processed = body.take("processed");
            body.end();
            processed.as_array().unwrap().iter().map(|it| it.as_bool().unwrap()).collect()
        }))
    }

    async fn progress(&self, run: &str) -> Result<Granted<Progress>> {
        let answer = self.of_run("GET", run, "/progress", Value::Null).await?;
        Ok(answer.map(|(_, mut body)| {
            let progress = Progress {
                processed: body.number("processed"),
                failed: body.number("failed"),
                to_retry: body.number("to_retry"),
                total: body.optional("total"),
                rate_per_second: body.take("rate_per_second").as_f64().unwrap(),
                estimated_end: optional_moment(&mut body, "estimated_end_ms"),
                lost_at: optional_moment(&mut body, "lost_at_ms"),
            };
            body.end();
            progress
        }))
    }

    async fn task_started(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> Result<Granted<TaskStarted>> {
        let what = in_attempt(&format!("/tasks/{}", encoded(task)), attempt);
        let answer = self.of_run("PUT", run, &what, Value::Null).await?;
        Ok(answer.map(|(status, mut body)| {
            assert_eq!(body.text("task"), task);
            let started =
                TaskStarted { started_at: moment(&mut body, "started_at_ms"), is_new: body.flag("is_new") };
            assert_eq!(status, if started.is_new { 201 } else { 200 });
            body.end();
            started
        }))
    }

    async fn task_finished(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> Result<Granted<Duration>> {
        let what = in_attempt(&format!("/tasks/{}/finish", encoded(task)), attempt);
        let answer = self.of_run("POST", run, &what, Value::Null).await?;
        Ok(answer.map(|(_, mut body)| {
            assert_eq!(body.text("task"), task);
            let duration = Duration::from_millis(body.number("duration_ms"));
            body.end();
            duration
        }))
    }

    async fn tasks(&self, run: &str) -> Result<Granted<Vec<Task>>> {
        let answer = self.of_run("GET", run, "/tasks", Value::Null).await?;
        Ok(answer.map(|(_, mut body)| {
            let tasks = body.list("tasks").into_iter().map(task).collect();
            body.end();
            tasks
        }))
    }

    async fn failed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        item: &str,
        reason: &str,
        id: &str,
    ) -> Result<Granted<FailureNoted>> {
        let body = json!({"item": item, "reason": reason, "id": id});
        let answer = self.of_run("POST", run, &in_attempt("/failures", attempt), body).await?;
        Ok(answer.map(|(_, mut body)| {
            assert_eq!(body.text("item"), item);
            let dropped = body.take("dropped").as_str().map(str::to_owned);
            let noted = FailureNoted { count: body.number("count"), is_new: body.flag("is_new"), dropped };
            body.end();
            noted
        }))
    }

    async fn failures(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Page<Failure>>> {
        let found = self.failures_at(&format!("/runs/{}/failures", encoded(run)), after, limit).await?;
        Ok(found.map(|page| of_one(page, run)))
    }

    async fn retry_list(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Page<Failure>>> {
        let found = self.failures_at(&format!("/runs/{}/retry_list", encoded(run)), after, limit).await?;
        Ok(found.map(|page| of_one(page, run)))
    }

    async fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<RunFailure>> {
        Ok(self.failures_at(&format!("/failures/{hour}"), after, limit).await?.unwrap())
    }

    async fn cleanup(&self) -> Result<usize> {
        let (_, mut body) = self.granted("POST", "/cleanup", Value::Null).await?.unwrap();
        let removed = body.number("removed");
        body.end();
        Ok(removed as usize)
    }
}
