"""The client against a real server, and against what can stand between the two.

`scripts/client-test` starts the servers and runs this on each store; `TIDEGATE_TEST_URL` is where they are.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import uuid

import example_airflow
import tidegate
from tidegate import EVERYONE, Client, Edit

URL = os.environ["TIDEGATE_TEST_URL"]

# So long that a busy machine is not late.
PATIENT_S = 30.0

TEXTS = [
    "100000000000001", "007", "1e14", "-0", "null", "true", "everyone", "keys", '"quoted"', "it's", "two\nlines",
    "tab\tand\rreturn", "a/b//c", "/", "%", "%2F", "100%", ".", "..", "../../etc", "a b", " ", "+", "a+b", "a&b=c",
    "?", "#", ";", ":", "{tag}", "[]", "\\", "\x01", "Ünïcödé", "日本語", "🌊", "e\u0301", "\u202e", "x" * 255, "é" * 127,
]


def unique(name="k"):
    return f"{name}-{uuid.uuid4().hex}"


def patient(**options):
    return Client(URL, **{"deadline": PATIENT_S, "attempt": PATIENT_S, **options})


class Between:
    """Stands between client and server, a thread for each connection.

    `lose` is how many answers are kept from the client, which then sees the connection end; `cut` is how many
    connections the server's side has closed while nobody asked anything.
    """

    def __init__(self, target=None, answer=None):
        self.target = target or URL.split("//")[1]
        self.answer = answer
        self.lose = 0
        self.swallow = 0
        self.connections = 0
        self.requests = []
        self.lock = threading.Lock()
        self.open = []
        self.release = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.close_all()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.append(client)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def end_all(self):
        """Says on every connection that no answer will come, and goes on to read."""
        with self.lock:
            for each in self.open:
                each.shutdown(socket.SHUT_WR)

    def close_all(self):
        """Ends every connection, as a server does that waited for long enough."""
        with self.lock:
            ended, self.open = self.open, []
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def serve(self, client):
        with contextlib.suppress(OSError):
            host, port = self.target.rsplit(":", 1)
            with contextlib.ExitStack() as stack:
                stack.enter_context(client)
                server = None
                while True:
                    request = read_message(client)
                    if not request:
                        return
                    with self.lock:
                        self.requests.append(request.split(b"\r\n", 1)[0].decode())
                        number = len(self.requests)
                    if self.answer is not None:
                        if not self.answer(self, client, number):
                            return
                        continue
                    if server is None:
                        server = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENT_S))
                    server.sendall(request)
                    answer = read_message(server, b"204 No Content")
                    with self.lock:
                        loses, self.lose = self.lose > 0, max(0, self.lose - 1)
                        swallows, self.swallow = self.swallow > 0, max(0, self.swallow - 1)
                    if loses:
                        return
                    if swallows:
                        self.release.wait()
                        return
                    client.sendall(answer)


def read_message(connection, without_body=b"\0"):
    """A head and the body that it announces."""
    read = b""
    while b"\r\n\r\n" not in read:
        more = connection.recv(65536)
        if not more:
            return b""
        read += more
    head, body = read.split(b"\r\n\r\n", 1)
    found = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
    length = int(found[1]) if found and without_body not in head else 0
    while len(body) < length:
        more = connection.recv(65536)
        if not more:
            return b""
        body += more
    return head + b"\r\n\r\n" + body


def says(status, members, *, then_close=False):
    """An answer of any kind."""

    def answer(_, client, __):
        body = members if isinstance(members, bytes) else json.dumps(members).encode()
        kind = "application/problem+json" if status >= 300 else "application/json"
        ending = "connection: close\r\n" if then_close else ""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{ending}content-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        return not then_close

    return answer


def problem(kind, status):
    return {"type": f"urn:tidegate:problem:{kind}", "title": "T", "status": status, "detail": f"it is {kind}"}


DECISION = {
    "outcome": "admitted", "limit": "api", "key": "k", "cost": 1, "capacity": 5, "remaining": 4, "reset_after_ms": 60_000,
    "window_size_seconds": 60, "receipt": None, "source": "store",
}


class Texts(unittest.TestCase):
    """Whatever a key is, it comes back as it went in, and is another than all others."""

    def setUp(self):
        self.client = patient()
        self.addCleanup(self.client.close)

    def test_keys_of_limits(self):
        limit = self.client.limit("roomy")
        mark = uuid.uuid4().hex
        keys = [text if len(text.encode()) > 200 else text + mark for text in TEXTS]
        for key in keys:
            limit.reset(key)
        for number, key in enumerate(keys, 1):
            decision = limit.take(key, number)
            self.assertTrue(decision)
            self.assertEqual((decision.key, decision.cost), (key, number))
        for number, key in enumerate(keys, 1):
            peeked = limit.peek(key)
            self.assertEqual((peeked.key, peeked.capacity - peeked.remaining), (key, number))

    def test_texts_alone_are_keys_too(self):
        limit = self.client.limit("roomy")
        for key in TEXTS:
            limit.reset(key)
            self.assertEqual(limit.take(key, 7).key, key)
            peeked = limit.peek(key)
            self.assertEqual((peeked.key, peeked.capacity - peeked.remaining), (key, 7))

    def test_keys_and_ids_of_reservations_and_overrides(self):
        limit = self.client.limit("holding")
        key = unique()
        for text in TEXTS:
            limit.reset(text)
            self.assertEqual(limit.reserve(key, text, lasting_ms=3_600_000).reservation.id, text)
            self.assertTrue(limit.reserve(text, key, lasting_ms=3_600_000))
            self.assertEqual(limit.set_override(text, "50/h", 3_600_000).key, text)
        found = {(each.key, each.id) for each in limit.reservations()}
        self.assertLessEqual({(key, text) for text in TEXTS} | {(text, key) for text in TEXTS}, found)
        self.assertLessEqual(set(TEXTS), {each.key for each in limit.overrides()})
        for text in TEXTS:
            self.assertEqual(limit.reservation(key, text).id, text)
            self.assertEqual(limit.commit(key, text).state, "committed")
            self.assertEqual(limit.release(text, key).state, "released")
            self.assertEqual(limit.override(text).rate, "50/h")
            limit.clear_override(text)
            self.assertIsNone(limit.override(text))

    def test_pages_ids_and_editors(self):
        hot = self.client.hot("pages")
        for text in TEXTS:
            hot.remove(text)
            other = unique()
            for edit in [Edit(text, text, text), Edit(text, other, "somebody", -7)]:
                self.assertEqual(hot.record(edit).page, text)
            window = hot.window(text)
            self.assertEqual({(each.id, each.editor) for each in window}, {(text, text), (other, "somebody")})
            self.assertTrue(hot.stats(text).is_hot)
            self.assertEqual(hot.remove(text), "hot")

    def test_broadcasters_holders_configurations_and_values(self):
        sessions = self.client.sessions("rooms")
        for text in TEXTS:
            config = {"text": text, "number": 100000000000001, "list": [], "none": None}
            activated = sessions.activate(text, config, text)
            sessions.update(activated.id, text)
            session = sessions.find(text)
            self.assertEqual((session.id, session.broadcaster), (activated.id, text))
            self.assertEqual((session.config, session.value), (config, text))
            self.assertEqual([each.holder for each in session.holders], [text])
            self.assertEqual(sessions.heartbeat(session.id, text).holder, text)
            self.assertEqual(sessions.disconnect(session.id, text), "disconnected")

    def test_runs_items_tasks_reasons_and_fields(self):
        runs = self.client.runs()
        mark = uuid.uuid4().hex[:8]
        for text in TEXTS:
            id = text if len(text.encode()) > 200 else text + mark
            attempt = runs.start(id).attempt
            runs.update(id, fields={text: text, "empty": ""}, attempt=attempt)
            self.assertEqual((runs.get(id).run, runs.get(id).fields), (id, {text: text, "empty": ""}))
            self.assertEqual(runs.processed(id, [text, text + "x" if len(text) < 200 else "x"], attempt=attempt).new, 2)
            self.assertEqual(runs.is_processed(id, [text, "other"]), [True, False])
            self.assertEqual(runs.task_started(id, text).task, text)
            runs.task_finished(id, text)
            self.assertEqual([each.task for each in runs.tasks(id)], [text])
            item = ("y" + text)[:100]
            runs.failed(id, item, text, id=text)
            self.assertEqual([(each.run, each.item, each.reason) for each in runs.failures(id)], [(id, item, text)])
            runs.delete(id, attempt=attempt)

    def test_ids_of_charges(self):
        runs = self.client.runs("roomy")
        mark = uuid.uuid4().hex[:8]
        before = runs.quota().remaining
        ids = [text if len(text.encode()) > 200 else text + mark for text in TEXTS]
        for id in ids + ids:
            self.assertEqual(runs.charge(id=id).id, id)
        self.assertEqual(before - runs.quota().remaining, len(ids))
        for id in ids + ids:
            runs.release(id)
        self.assertEqual(runs.quota().remaining, before)

    def test_numbers_are_no_texts(self):
        limit = self.client.limit("roomy")
        for wrong in [7, 7.0, None, True, b"7"]:
            for call in [limit.take, limit.peek, limit.reset]:
                with self.assertRaises(TypeError):
                    call(wrong)
            with self.assertRaises(TypeError):
                limit.reserve("key", wrong, lasting_ms=1000)
            with self.assertRaises(TypeError):
                self.client.hot("pages").record(Edit(wrong, "id"))
        with self.assertRaises(ValueError):
            limit.peek("")
        with self.assertRaises(UnicodeEncodeError):
            limit.take("\ud800")
        with self.assertRaises(UnicodeEncodeError):
            limit.peek("\ud800")


class Answers(unittest.TestCase):
    """What the server says, as values and exceptions."""

    def setUp(self):
        self.client = patient()
        self.addCleanup(self.client.close)

    def test_a_refused_take_is_a_value_and_false(self):
        limit, key = self.client.limit("tight"), unique()
        self.assertTrue(limit.take(key, 2))
        refused = limit.take(key)
        self.assertFalse(refused)
        self.assertEqual((refused.outcome, refused.remaining, refused.kind), ("rejected", 0, "quota-exceeded"))
        self.assertGreater(refused.retry_after_ms, 0)
        self.assertIn("tight", refused.detail)
        self.assertIsNone(limit.take(key, 3).retry_after_ms)
        self.assertFalse(limit.reserve(key, "r", lasting_ms=1000))
        both = self.client.take_all(key, ["roomy", ("tight", 1)])
        self.assertFalse(both)
        self.assertEqual([each.outcome for each in both.limits], ["admitted", "rejected"])
        self.assertEqual(self.client.limit("roomy").peek(key).remaining, self.client.limit("roomy").info().capacity)

    def test_a_charge_is_given_back_once(self):
        limit, key = self.client.limit("tight"), unique()
        receipt = limit.take(key, 2).receipt
        self.assertEqual([limit.refund(key, receipt), limit.refund(key, receipt)], [2, 0])
        self.assertTrue(limit.take(key, 2))
        with self.assertRaises(tidegate.BadRequest):
            limit.refund(unique(), receipt)

    def test_what_everyone_shares_needs_to_be_meant(self):
        limit = self.client.limit("shared")
        limit.reset(EVERYONE)
        decision = limit.take(EVERYONE, 2)
        self.assertEqual((decision.key, decision.remaining), (None, decision.capacity - 2))
        self.assertEqual(limit.peek(EVERYONE).remaining, decision.remaining)
        self.assertEqual(limit.peek("everyone").remaining, decision.capacity, "that is a key")
        self.assertTrue(self.client.take_all(EVERYONE, ["shared"]))

    def test_problems_are_exceptions_with_the_words_of_the_server(self):
        with self.assertRaises(tidegate.NotFound) as caught:
            self.client.limit("nowhere").take("k")
        self.assertEqual((caught.exception.status, caught.exception.kind), (404, "unknown-limit"))
        self.assertIn("roomy", str(caught.exception))
        with self.assertRaises(tidegate.NotFound):
            self.client.limit("nowhere").override("k")
        with self.assertRaises(tidegate.BadRequest):
            self.client.limit("roomy").take("k", 0)
        limit, key = self.client.limit("holding"), unique()
        limit.reserve(key, "id", 2, lasting_ms=60_000)
        with self.assertRaises(tidegate.Conflict):
            limit.reserve(key, "id", 3, lasting_ms=60_000)
        with self.assertRaises(tidegate.NotFound) as caught:
            limit.commit(key, "other")
        self.assertEqual(caught.exception.kind, "no-reservation")
        sessions = self.client.sessions("rooms")
        gone = "67e55044-10b1-426f-9247-bb680e5fe0c8"
        with self.assertRaises(tidegate.NotFound) as caught:
            sessions.heartbeat(gone, "h")
        self.assertEqual(caught.exception.refusal, "gone")
        with self.assertRaises(tidegate.NotFound):
            sessions.delete(gone)
        self.assertIsNone(sessions.get(gone))
        held = sessions.activate(unique(), {}, "h")
        with self.assertRaises(tidegate.Conflict) as caught:
            sessions.delete(held.id)
        self.assertEqual(caught.exception.refusal, "active")

    def test_edits_in_bulk_are_counted_over_all_batches(self):
        hot, page = self.client.hot("pages"), unique()
        edits = [Edit(page, str(number % 11_000)) for number in range(12_000)]
        edits[11_999] = Edit(page, "late", at=1)
        edits[7_000] = Edit(page, "")
        told = hot.record_many(iter(edits))
        self.assertEqual((told.lines, told.good, told.bad), (12_000, 11_999, 1))
        self.assertEqual([each.line for each in told.bad_lines], [7_001])
        self.assertEqual(sum(told.outcomes.values()), 11_999)
        self.assertFalse(told.is_complete)
        self.assertTrue(hot.record_many([]).is_complete)

    def test_whatever_is_not_our_server_is_told_so(self):
        with Between(answer=says(200, b"<html>")) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            with self.assertRaises(tidegate.UnexpectedAnswer):
                client.limits()
        with Between(answer=says(404, b"<html>")) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            with self.assertRaises(tidegate.NotFound) as caught:
                client.limit("api").override("k")
            self.assertEqual(caught.exception.kind, "")
        with Between(answer=says(200, {"limit": "api"})) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            with self.assertRaises(tidegate.UnexpectedAnswer):
                client.limit("api").take("k")

    def test_a_server_that_knows_no_counts_has_spaces_that_keep_edits(self):
        space = {
            "space": "main", "max_tracked": 1000, "promotion_threshold": 5, "window_ms": 3_600_000, "max_members_per_page": 100,
            "hot_threshold": 2, "cleanup_interval_ms": 300_000, "when_full": "reject", "spike_ratio": 3.0, "spike_minimum": 5,
            "max_activity": 100_000, "max_bytes": 1 << 28, "partitions": 1,
        }
        with Between(answer=says(200, {"spaces": [space]})) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            main, = client.hot_spaces()
        self.assertEqual((main.max_members_per_page, main.only_counts, main.count_slots, main.gather_ms), (100, False, None, 0))

    def test_only_servers_are_addresses(self):
        for wrong in ["127.0.0.1:80", "ftp://x", "http://", "http://x?y=1", "http://user@x"]:
            with self.assertRaises(ValueError):
                Client(wrong)
        for wrong in [0, -1, float("inf"), float("nan")]:
            with self.assertRaises(ValueError):
                Client(URL, deadline=wrong)


class RunsOfPipelines(unittest.TestCase):
    """What a worker does, and what the next one finds."""

    def setUp(self):
        self.client = patient()
        self.addCleanup(self.client.close)
        self.runs = self.client.runs()
        self.id = f"manual_2024-09-17T14:30:00+00:00/{unique()}"

    def test_a_run_ends_as_its_block_does(self):
        with self.runs.run(self.id, total=3, fields={"source": "api"}) as run:
            self.assertTrue(run.is_new)
            self.assertEqual(run.processed(["1", "2"]), tidegate.Processed(2, 2))
            self.assertEqual(list(run.not_processed(["1", "2", "3"])), ["3"])
            with run.task("fetch") as task:
                self.assertIsNone(self.runs.tasks(self.id)[0].finished_at_ms)
            self.assertGreaterEqual(task.duration_ms, 0)
        found = self.runs.get(self.id)
        self.assertEqual((found.state, found.total, found.fields), ("succeeded", 3, {"source": "api"}))
        self.assertIsNotNone(self.runs.tasks(self.id)[0].duration_ms)

    def test_an_exception_fails_it_and_an_interrupt_cancels_it(self):
        for error, state in [(RuntimeError, "failed"), (KeyboardInterrupt, "cancelled"), (SystemExit, "cancelled")]:
            id = unique()
            with self.assertRaises(error):
                with self.runs.run(id) as run, run.task("fetch"):
                    raise error()
            self.assertEqual(self.runs.get(id).state, state)
            self.assertIsNone(self.runs.tasks(id)[0].finished_at_ms, "the task was left by the exception")

    def test_what_went_wrong_first_is_raised(self):
        with self.assertLogs("tidegate", "ERROR") as logged, self.assertRaises(RuntimeError):
            with self.runs.run(self.id) as run:
                self.runs.delete(self.id, attempt=run.attempt)
                raise RuntimeError()
        self.assertIn(self.id, logged.output[0])

    def test_a_run_that_has_ended_is_led_on_only_by_a_retry(self):
        with self.runs.run(self.id) as first:
            first.processed(["1"])
        with self.assertRaises(tidegate.Conflict) as caught:
            self.runs.run(self.id)
        self.assertEqual((caught.exception.refusal, caught.exception.members["state"]), ("ended", "succeeded"))
        second = self.runs.run(self.id, retry_ended=True)
        self.assertEqual((first.attempt, second.attempt), (1, 2))
        self.assertEqual(second.is_processed(["1", "2"]), [True, False], "what was done is not forgotten")
        # A late worker of the first attempt changes nothing of the second.
        late = [
            lambda: first.processed(["late"]), lambda: first.failed("late", "late"), lambda: first.finish("failed"),
            lambda: first.update(state="paused"), lambda: first.task("late").__enter__(),
        ]
        for call in late:
            with self.assertRaises(tidegate.Conflict) as caught:
                call()
            self.assertEqual((caught.exception.refusal, caught.exception.members["attempt"]), ("stale", 2))
        found = self.runs.get(self.id)
        self.assertEqual((found.state, self.runs.progress(self.id).processed), ("running", 1))
        self.assertEqual(self.runs.join(self.id).attempt, 2)
        second.finish()
        with self.assertRaises(tidegate.NotFound):
            self.runs.join(unique())

    def test_items_are_noted_in_batches_and_looked_up_in_their_order(self):
        items = [f"item-{number:06}" for number in range(25_000)]
        self.runs.start(self.id)
        self.assertEqual(self.runs.processed(self.id, iter(items[::2])), tidegate.Processed(12_500, 12_500))
        self.assertEqual(self.runs.processed(self.id, items[:10_000]).new, 5_000)
        self.assertEqual(self.runs.processed(self.id, []), tidegate.Processed(0, 17_500))
        self.assertEqual(self.runs.is_processed(self.id, items[9_998:10_002]), [True, True, True, False])
        self.assertEqual(list(self.runs.not_processed(self.id, items)), items[10_001::2])
        long = ["\x01" * 250 + f"{number:05}" for number in range(5_000)]
        self.assertEqual(self.runs.processed(self.id, long).new, 5_000, "however much has to be escaped")
        for wrong in [["1", 2], "items"]:
            with self.assertRaises(TypeError):
                self.runs.processed(self.id, wrong)

    def test_two_workers_lose_nothing_of_each_other(self):
        self.runs.start(self.id)
        new = []
        parts = [range(0, 10_000), range(5_000, 15_000)]

        def work(part):
            for start in range(part.start, part.stop, 500):
                noted = self.runs.processed(self.id, [str(item) for item in range(start, start + 500)])
                new.append(noted.new)

        threads = [threading.Thread(target=work, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((sum(new), self.runs.progress(self.id).processed), (15_000, 15_000))

    def test_a_run_that_ends_amid_many_items_says_how_many_were_noted(self):
        client, run = patient(), unique()
        self.addCleanup(client.close)
        runs = client.runs()
        runs.start(run)
        runs.processed(run, ["0", "1", "2"])

        def items():
            for number in range(25_000):
                if number == 15_000:
                    runs.finish(run, "cancelled")
                yield str(number)

        with self.assertRaises(tidegate.Conflict) as refused:
            runs.processed(run, items())
        self.assertEqual((refused.exception.refusal, refused.exception.members["taken"]), ("ended", 9_997))
        self.assertEqual(runs.progress(run).processed, 10_000)

    def test_a_task_that_is_finished_is_not_started_again_by_a_late_call(self):
        client, run = patient(), unique()
        self.addCleanup(client.close)
        runs = client.runs()
        attempt = runs.start(run).attempt
        first = runs.task_started(run, "t", attempt=attempt)
        took = runs.task_finished(run, "t", attempt=attempt)
        late = runs.task_started(run, "t", attempt=attempt)
        self.assertEqual((first.is_new, late.is_new, late.started_at_ms), (True, False, first.started_at_ms))
        self.assertEqual(runs.tasks(run)[0].duration_ms, took)

    def test_what_failed_is_to_be_tried_again_until_it_is_processed(self):
        with self.runs.run(self.id) as run:
            run.failed("007", "timeout")
            self.assertEqual(run.failed("007", "gone", id="call-2").count, 2)
            self.assertEqual(run.failed("007", "gone", id="call-2").count, 2, "the same call")
            run.failed("008", "quoted \"reason\"\nof two lines")
            self.assertEqual({each.item for each in run.retry_list()}, {"007", "008"})
            run.processed(["007"])
            self.assertEqual([each.item for each in run.retry_list()], ["008"])
            failures = {each.item: each for each in run.failures()}
            self.assertEqual((failures["007"].count, failures["007"].to_retry), (2, False))
            progress = run.progress()
            self.assertEqual((progress.processed, progress.failed, progress.to_retry), (1, 2, 1))
            hour = time.strftime("%Y-%m-%d_%H", time.gmtime(failures["008"].last_at_ms / 1000))
            of_hour = [each.item for each in self.runs.failures_of_hour(hour) if each.run == self.id]
            self.assertIn("008", of_hour)

    def test_a_quota_is_charged_once_by_an_id_and_can_be_given_back(self):
        runs = self.client.runs("tight")
        capacity = runs.quota().limit - runs.quota().safety_buffer
        ids = [unique() for _ in range(capacity + 1)]
        before = runs.quota().remaining
        self.assertEqual(before, capacity, "no other test uses this quota")
        for id in ids[:capacity]:
            self.assertTrue(runs.charge(id=id))
            self.assertFalse(runs.charge(id=id).is_new)
        refused = runs.charge(id=ids[-1])
        self.assertFalse(refused)
        self.assertEqual((refused.remaining, refused.by), (0, "sliding"))
        self.assertGreater(refused.retry_after_ms, 0)
        self.assertTrue(runs.release(ids[0]))
        self.assertFalse(runs.release(ids[0]))
        self.assertTrue(runs.charge(id=ids[-1]))
        with self.assertRaises(tidegate.Conflict):
            runs.charge(id=ids[0])
        with self.assertRaises(tidegate.NotFound):
            runs.release(unique())
        quota = runs.quota()
        self.assertEqual((quota.remaining, quota.aligned, quota.sliding.remaining), (0, None, 0))
        self.assertEqual((quota.hours[0].most_sliding, quota.hours[0].most_aligned), (capacity, None))
        self.assertEqual(quota.peak_hour, quota.hours[0].hour)
        both = self.client.runs().quota()
        self.assertEqual((both.kind, both.aligned.capacity, both.sliding.capacity), ("both", 999_975, 999_975))
        self.assertIsNone(runs.charge(capacity + 1).retry_after_ms, "it never fits")


class Example(unittest.TestCase):
    """The pipeline in example_airflow.py, as its users start it."""

    def run_it(self, id, *more, space="roomy"):
        command = [sys.executable, "example_airflow.py", "--server", URL, "--space", space, "--run", id, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def setUp(self):
        self.client = patient()
        self.addCleanup(self.client.close)
        self.runs = self.client.runs("roomy")
        self.id = f"manual_2024-09-17T14:30:00+00:00_{unique()}"

    def test_a_whole_run_and_again(self):
        before = self.runs.quota().remaining
        code, told, err = self.run_it(self.id, "--dockets", "50")
        self.assertEqual((code, told, err), (0, {"state": "succeeded", "attempt": 1, "fetched": 50, "failed": 0}, ""))
        self.assertEqual(before - self.runs.quota().remaining, 50)
        found, progress = self.runs.get(self.id), self.runs.progress(self.id)
        self.assertEqual((found.state, found.total, progress.processed), ("succeeded", 50, 50))
        self.assertEqual([each.task for each in self.runs.tasks(self.id)], ["process_dockets"])
        self.assertEqual(self.run_it(self.id, "--dockets", "50")[1]["fetched"], 0)
        self.assertEqual(before - self.runs.quota().remaining, 50)

    def test_a_worker_that_is_killed_is_taken_up(self):
        before = self.runs.quota().remaining
        code, _, _ = self.run_it(self.id, "--dockets", "50", "--die-at", "045")
        self.assertEqual((code, self.runs.progress(self.id).processed), (9, 40))
        self.assertEqual(before - self.runs.quota().remaining, 46)
        code, told, _ = self.run_it(self.id, "--dockets", "50")
        self.assertEqual((code, told["fetched"], self.runs.progress(self.id).processed), (0, 10, 50))
        self.assertEqual(before - self.runs.quota().remaining, 56, "what it fetches again is charged again")

    def test_every_call_is_charged_whoever_comes_to_a_docket_again(self):
        # As Airflow takes up a task that waited for the quota: in the same attempt and the same try.
        calls = []

        def fetch(docket):
            calls.append(docket)
            if len(calls) <= 6:
                raise OSError("503 Service Unavailable")

        before, attempt = self.runs.quota().remaining, example_airflow.begin(self.runs, self.id, 3)
        for _ in range(4):
            example_airflow.process(self.runs, self.id, attempt, ["1", "2", "3"], fetch)
        self.assertEqual((len(calls), before - self.runs.quota().remaining), (9, 9))
        self.assertEqual(example_airflow.end(self.runs, self.id, attempt), "succeeded")

    def test_what_failed_is_done_by_the_next_attempt(self):
        code, told, _ = self.run_it(self.id, "--dockets", "10", "--failing", "003,007")
        self.assertEqual((code, told), (1, {"state": "failed", "attempt": 1, "fetched": 8, "failed": 2}))
        self.assertEqual({each.item for each in self.runs.retry_list(self.id)}, {"003", "007"})
        code, told, _ = self.run_it(self.id, "--dockets", "10")
        self.assertEqual((code, told), (0, {"state": "succeeded", "attempt": 2, "fetched": 2, "failed": 0}))
        self.assertEqual(list(self.runs.retry_list(self.id)), [])

    def test_a_quota_that_is_used_up_pauses_it(self):
        runs = self.client.runs("paused")
        code, told, _ = self.run_it(self.id, "--dockets", "50", space="paused")
        self.assertEqual((code, told["state"]), (3, "paused"))
        self.assertGreater(told["retry_after_s"], 0)
        progress = runs.progress(self.id)
        self.assertEqual((runs.get(self.id).state, progress.processed), ("paused", 15), "what was done is noted")


class Connections(unittest.TestCase):
    """They are kept, and never mixed up."""

    def test_one_thread_uses_one_connection(self):
        with Between() as proxy, patient() as direct, Client(proxy.url, deadline=PATIENT_S) as client:
            key = unique()
            for _ in range(50):
                self.assertTrue(client.limit("roomy").take(key))
            with self.assertRaises(tidegate.NotFound):
                client.limit("nowhere").info()
            client.limit("roomy").reset(key)
            self.assertEqual((proxy.connections, len(proxy.requests)), (1, 52))
            self.assertEqual(direct.limit("roomy").peek(key).remaining, direct.limit("roomy").info().capacity)

    def test_threads_share_a_client_and_get_their_own_answers(self):
        wrong = []
        with Between() as proxy, Client(proxy.url, deadline=PATIENT_S, attempt=PATIENT_S) as client:

            def work():
                limit = client.limit("roomy")
                for number in range(1, 41):
                    key = unique()
                    decision = limit.take(key, number)
                    if (decision.key, decision.cost) != (key, number):
                        wrong.append(decision)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            self.assertEqual(len(proxy.requests), 320)
            self.assertLessEqual(proxy.connections, 8)

    def test_a_connection_that_was_closed_while_idle_is_no_error(self):
        with Between() as proxy, patient() as direct, Client(proxy.url, deadline=PATIENT_S) as client:
            key = unique()
            for end in [proxy.close_all, proxy.end_all] * 5:
                # Even a take, which is never sent twice.
                self.assertTrue(client.limit("roomy").take(key))
                end()
            self.assertEqual((proxy.connections, len(proxy.requests)), (10, 10))
            used = direct.limit("roomy").peek(key)
            self.assertEqual(used.capacity - used.remaining, 10)

    def test_an_old_connection_is_not_used_again(self):
        with Between() as proxy, Client(proxy.url, deadline=PATIENT_S, max_idle_seconds=0.0) as client:
            for _ in range(3):
                client.limits()
            self.assertEqual(proxy.connections, 3)

    def test_an_answer_that_says_close_is_read_to_its_end(self):
        answer = says(200, {"limits": []}, then_close=True)
        with Between(answer=answer) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            self.assertEqual([client.limits(), client.limits()], [[], []])
            self.assertEqual(proxy.connections, 2)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
    def test_a_child_has_connections_of_its_own(self):
        with Between() as proxy, Client(proxy.url, deadline=PATIENT_S, attempt=PATIENT_S) as client:
            limit, key = client.limit("roomy"), unique()
            self.assertTrue(limit.take(key))
            child = os.fork()
            if child == 0:
                failed = 1
                try:
                    taken = [limit.take(key + "-child").key for _ in range(20)]
                    failed = 0 if taken == [key + "-child"] * 20 else 1
                finally:
                    os._exit(failed)
            self.assertEqual([limit.take(key).key for _ in range(20)], [key] * 20)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(proxy.connections, 2)

    def test_a_closed_client_says_so(self):
        client = patient()
        other = client.within(1.0)
        client.limits()
        client.close()
        for each in [client, other]:
            with self.assertRaisesRegex(tidegate.TidegateError, "closed"):
                each.limits()


class Lost(unittest.TestCase):
    """Answers that never come: what may be sent again is, and counts once; what may not is told of."""

    def setUp(self):
        self.proxy = Between()
        self.addCleanup(self.proxy.__exit__)
        self.client = Client(self.proxy.url, deadline=PATIENT_S, attempt=PATIENT_S)
        self.addCleanup(self.client.close)
        self.direct = patient()
        self.addCleanup(self.direct.close)

    def used(self, limit, key):
        peeked = self.direct.limit(limit).peek(key)
        return peeked.capacity - peeked.remaining

    def test_a_take_is_never_sent_twice(self):
        key = unique()
        self.proxy.lose = 1
        with self.assertRaises(tidegate.NoAnswer) as caught:
            self.client.limit("roomy").take(key)
        self.assertTrue(caught.exception.may_be_done)
        self.assertIn("may have been done", str(caught.exception))
        self.assertEqual((len(self.proxy.requests), self.used("roomy", key)), (1, 1))
        self.proxy.lose = 1
        with self.assertRaises(tidegate.NoAnswer):
            self.client.take_all(key, ["roomy"])
        self.assertEqual((len(self.proxy.requests), self.used("roomy", key)), (2, 2))

    def test_a_reservation_charges_once(self):
        limit, key = self.client.limit("holding"), unique()
        self.proxy.lose = 3
        held = limit.reserve(key, "order-17", 2, lasting_ms=600_000)
        self.assertTrue(held.is_new, "although the answer that came says that it was there")
        self.assertEqual((len(self.proxy.requests), self.used("holding", key)), (4, 2))
        self.proxy.lose = 3
        self.assertEqual(limit.commit(key, "order-17").state, "committed")
        self.assertEqual((len(self.proxy.requests), self.used("holding", key)), (8, 2))
        limit.reserve(key, "order-18", 2, lasting_ms=600_000)
        self.proxy.lose = 2
        self.assertEqual(limit.release(key, "order-18").state, "released")
        self.assertEqual(self.used("holding", key), 2)

    def test_a_refund_gives_back_once(self):
        limit, key = self.client.limit("roomy"), unique()
        receipt = limit.take(key, 2).receipt
        limit.take(key, 5)
        self.proxy.lose = 2
        limit.refund(key, receipt)
        self.assertEqual(self.used("roomy", key), 5)

    def test_a_charge_by_an_id_counts_once_and_is_given_back_once(self):
        key = unique()
        self.proxy.lose = 2
        charged = self.client.charge(key, ["roomy", ("holding", 2)], id="order-19")
        self.assertTrue(charged.is_new, "although the answer that came says that it was there")
        self.assertEqual((self.used("roomy", key), self.used("holding", key)), (1, 2))
        self.proxy.lose = 2
        self.assertTrue(self.client.release(key, ["roomy", "holding"], "order-19"))
        self.assertEqual((self.used("roomy", key), self.used("holding", key)), (0, 0))
        self.assertFalse(self.client.release(key, ["roomy", "holding"], "order-19"))
        with self.assertRaises(tidegate.Conflict):
            self.client.charge(key, ["roomy", ("holding", 2)], id="order-19")

    def test_an_edit_counts_once(self):
        hot, page = self.client.hot("pages"), unique()
        for number in range(3):
            self.proxy.lose = 2
            hot.record(Edit(page, str(number)))
        self.assertEqual(self.direct.hot("pages").stats(page).total_edits, 3)
        self.proxy.lose = 1
        told = hot.record_many([Edit(page, "3"), Edit(page, "4")])
        self.assertEqual(told.outcomes["duplicate"], 2)
        self.assertEqual(self.direct.hot("pages").stats(page).total_edits, 5)

    def test_a_count_whose_answer_was_lost_is_not_sent_again(self):
        hot, page = self.client.hot("views"), unique()
        for count in [lambda: hot.count(page, 10), lambda: hot.count_many({page: 10})]:
            self.proxy.lose = 1
            with self.assertRaises(tidegate.TidegateError):
                count()
        self.assertEqual(self.direct.hot("views").stats(page).total_edits, 20)

    def test_a_session_is_activated_and_deleted_once(self):
        sessions = self.client.sessions("rooms")
        self.proxy.lose = 2
        session = sessions.activate(unique(), {}, "h")
        self.assertEqual((session.generation, session.found), (1, "active"))
        self.proxy.lose = 2
        self.assertEqual(sessions.disconnect(session.id, "h"), "disconnected")
        self.proxy.lose = 1
        sessions.delete(session.id)
        self.assertIsNone(self.direct.sessions("rooms").get(session.id))
        with self.assertRaises(tidegate.NotFound):
            sessions.delete(session.id)

    def test_whatever_a_run_is_told_counts_once(self):
        runs, id = self.client.runs(), unique()
        direct = self.direct.runs()
        self.proxy.lose = 2
        self.assertEqual(runs.start(id).attempt, 1)
        for number in range(3):
            self.proxy.lose = 2
            self.assertEqual(runs.processed(id, [str(number), "again"]).processed, number + 2)
            self.proxy.lose = 2
            runs.failed(id, "failing", "timeout", attempt=1)
        self.assertEqual(direct.progress(id).processed, 4)
        self.assertEqual([each.count for each in direct.failures(id)], [3])
        before = direct.quota().remaining
        self.proxy.lose = 2
        self.assertTrue(runs.charge(5, id=id))
        self.assertEqual(before - direct.quota().remaining, 5)
        self.proxy.lose = 2
        self.assertTrue(runs.release(id))
        self.assertEqual(direct.quota().remaining, before)
        self.proxy.lose = 2
        self.assertEqual(runs.finish(id, attempt=1).state, "succeeded")
        self.proxy.lose = 2
        self.assertEqual(runs.retry(id, 1).attempt, 2)
        self.assertEqual(direct.get(id).attempt, 2)
        self.proxy.lose = 1
        runs.delete(id, attempt=2)
        self.assertIsNone(direct.get(id))

    def test_without_an_attempt_a_run_is_not_ended_twice(self):
        runs, id = self.client.runs(), unique()
        runs.start(id)
        sent = len(self.proxy.requests)
        for call in [lambda: runs.update(id, state="paused"), lambda: runs.finish(id), lambda: runs.delete(id)]:
            self.proxy.lose = 1
            with self.assertRaises(tidegate.NoAnswer) as caught:
                call()
            self.assertTrue(caught.exception.may_be_done)
            sent += 1
            self.assertEqual(len(self.proxy.requests), sent)

    def test_an_answer_that_is_swallowed_is_asked_for_again_within_the_deadline(self):
        client = self.client.within(PATIENT_S, attempt=0.5)
        key = unique()
        self.proxy.swallow = 1
        self.assertTrue(client.limit("holding").reserve(key, "r", lasting_ms=600_000))
        self.assertGreater(len(self.proxy.requests), 1)
        self.assertEqual(self.used("holding", key), 1)

    def test_half_an_answer_is_none(self):
        def cut(_, client, number):
            if number > 1:
                return says(200, {"limits": []})(None, client, number)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{}")
            return False

        with Between(answer=cut) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            self.assertEqual(client.limits(), [])
            self.assertEqual(len(proxy.requests), 2)
        with Between(answer=cut) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            with self.assertRaises(tidegate.NoAnswer) as caught:
                client.limit("api").take("k")
            self.assertTrue(caught.exception.may_be_done)

    def test_claims_are_not_sent_twice(self):
        self.proxy.lose = 1
        with self.assertRaises(tidegate.NoAnswer):
            self.client.sessions("work").claim()
        self.assertEqual(len(self.proxy.requests), 1)


class Deadlines(unittest.TestCase):
    """A call ends by its deadline, whatever the server does."""

    # A busy machine is late by itself; what has no bound is later.
    LATE_S = 15.0

    def check(self, client, call, may_be_done, kind=tidegate.DeadlineExceeded):
        began = time.monotonic()
        with self.assertRaises(kind) as caught:
            call(client)
        self.assertLess(time.monotonic() - began, self.LATE_S)
        self.assertEqual(caught.exception.may_be_done, may_be_done)

    def silent(self, proxy, *_):
        proxy.release.wait(60)
        return False

    def dripping(self, proxy, client, _):
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        while not proxy.release.wait(0.05):
            client.sendall(b"x-drop: drip\r\n")
        return False

    def test_a_server_that_says_nothing(self):
        with Between(answer=self.silent) as proxy, Client(proxy.url, deadline=2.0, attempt=0.2) as client:
            self.check(client, lambda it: it.limit("api").take("k"), True)
            self.assertEqual(len(proxy.requests), 1)
            self.check(client, lambda it: it.limits(), True)
            self.assertGreater(len(proxy.requests), 2, "what can be repeated is, within the deadline")

    def test_a_server_that_drips(self):
        with Between(answer=self.dripping) as proxy, Client(proxy.url, deadline=0.4) as client:
            self.check(client, lambda it: it.limit("api").take("k"), True)

    def test_a_server_that_does_not_accept(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with Client(address, deadline=0.3) as client:
                self.check(client, lambda it: it.limit("api").take("k"), False, tidegate.NoAnswer)
                self.check(client, lambda it: it.limits(), False, tidegate.NoAnswer)

    def test_a_server_that_is_back_in_time_is_no_error(self):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", 0))
            proxies = []

            def pause(_):
                # It comes after the first attempt has failed.
                if not proxies:
                    listener.listen()
                    proxies.append(listener)
                    answer = says(200, DECISION)
                    threading.Thread(target=lambda: serve_one(listener, answer), daemon=True).start()

            with Client(f"http://127.0.0.1:{listener.getsockname()[1]}", deadline=PATIENT_S) as client:
                # Also of a take: nothing of it was sent before.
                with unittest.mock.patch.object(tidegate.time, "sleep", pause):
                    self.assertTrue(client.limit("api").take("k"))
            self.assertEqual(len(proxies), 1)

    def test_another_deadline_is_on_the_same_connections(self):
        with Between() as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            client.limits()
            client.within(PATIENT_S / 2).limits()
            client.limits()
            self.assertEqual(proxy.connections, 1)


def serve_one(listener, answer):
    connection, _ = listener.accept()
    with connection:
        read_message(connection)
        answer(None, connection, 1)


class Passing(unittest.TestCase):
    """Answers that say that it may be over in a moment."""

    def after_two(self, status, body, good):
        def answer(proxy, client, number):
            return says(*((status, body) if number <= 2 else (200, good)))(proxy, client, number)

        return answer

    def test_what_can_be_repeated_is(self):
        for status, kind in [(503, "store-unavailable"), (408, "request-timeout")]:
            answer = self.after_two(status, problem(kind, status), {"refunded": 3})
            with Between(answer=answer) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
                self.assertEqual(client.limit("api").refund("k", "r"), 3)
                self.assertEqual(len(proxy.requests), 3)

    def test_at_the_deadline_it_is_told_as_it_was_said(self):
        answer = says(503, problem("store-unavailable", 503))
        with Between(answer=answer) as proxy, Client(proxy.url, deadline=2.0) as client:
            with self.assertRaises(tidegate.Unavailable) as caught:
                client.limit("api").reset("k")
            self.assertEqual(caught.exception.detail, "it is store-unavailable")
            self.assertGreater(len(proxy.requests), 1)

    def test_what_cannot_be_repeated_is_not(self):
        answer = says(503, problem("store-unavailable", 503))
        with Between(answer=answer) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            with self.assertRaises(tidegate.Unavailable):
                client.sessions().claim()
            self.assertEqual(len(proxy.requests), 1)

    def test_a_decision_of_an_outage_policy_is_an_answer(self):
        refused = {"outcome": "rejected", "remaining": 0, "retry_after_ms": 1000, "remaining_after_waiting": 5}
        decision = {**problem("store-away", 503), **DECISION, **refused, "source": "policy"}
        with Between(answer=says(503, decision)) as proxy, Client(proxy.url, deadline=PATIENT_S) as client:
            taken = client.limit("api").take("k")
            self.assertFalse(taken)
            self.assertEqual((taken.kind, taken.source), ("store-away", "policy"))
            self.assertFalse(client.limit("api").reserve("k", "r", lasting_ms=1000))
            self.assertEqual(len(proxy.requests), 2)


class Events(unittest.TestCase):
    """A stream goes on where it was."""

    def test_events_are_told_once_over_connections_that_end(self):
        client = patient()
        self.addCleanup(client.close)
        hot = client.hot("pages")
        pages = [unique("page") for _ in range(3)]
        with Pipe() as pipe, Client(pipe.url, deadline=PATIENT_S) as watching:
            events = watching.hot("pages").events("0-0")
            self.addCleanup(events.close)
            for page in pages:
                hot.record(Edit(page, "1"))
                hot.record(Edit(page, "2"))
                told = next(each for each in events if each.page in pages)
                self.assertEqual((told.page, told.kind), (page, "promoted"))
                pipe.cut()


class Pipe:
    """Bytes in both directions, until it is cut."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def accept(self):
        host, port = URL.split("//")[1].rsplit(":", 1)
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection((host, int(port)))
                self.open += [client, server]
                for one, other in [(client, server), (server, client)]:
                    threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    def copy(self, one, other):
        with contextlib.suppress(OSError):
            while True:
                read = one.recv(65536)
                if not read:
                    break
                other.sendall(read)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        one.close()

    def cut(self):
        ended, self.open = self.open, []
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


# Redirects are made by people and their tools, and followed by workers: there is nothing of them in a client for services.
NOT_OF_THE_CLIENT = ("/v1/rules", "/v1/workers", "/v1/edge")


class EveryOperation(unittest.TestCase):
    """Whatever the server offers of a part, the client has a method for."""

    def test_of_every_part(self):
        client = patient()
        self.addCleanup(client.close)
        requested = set()
        begin = client._transport.begin

        def recording(method, path, *rest):
            requested.add((method, path.split("?")[0]))
            return begin(method, path, *rest)

        client._transport.begin = recording
        self.of_limits(client)
        self.of_hot(client)
        self.of_sessions(client)
        self.of_runs(client)
        self.of_the_store(client)
        description = client._get("/openapi.json")
        missing = []
        for path, methods in description["paths"].items():
            form = re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path))
            for method, operation in methods.items():
                is_of_a_part = path.startswith("/v1/") and not path.startswith(NOT_OF_THE_CLIENT)
                found = any(method.upper() == it and form.fullmatch(other) for it, other in requested)
                if is_of_a_part and not found:
                    missing.append(f"{method.upper()} {path} ({operation['operationId']})")
        self.assertEqual(missing, [])

    def of_the_store(self, client):
        health = client.store_health()
        self.assertTrue(health.healthy)
        self.assertEqual((health.consecutive_failures, health.unhealthy_after), (0, 3))
        self.assertGreater(health.memory_bytes, 0)
        # One in its process is never asked.
        on_redis = health.connection_attempts > 0
        self.assertEqual([each.part for each in health.parts], ["limit", "hot", "sessions", "runs"] if on_redis else [])
        self.assertEqual(len(health.servers), 1 if on_redis else 0)

    def of_limits(self, client):
        self.assertIn("roomy", [each.limit for each in client.limits()])
        limit = client.limit("holding")
        self.assertEqual(limit.info().limit, "holding")
        self.assertTrue(client.is_ready())
        limit.reset(EVERYONE)
        for key in [unique(), EVERYONE]:
            taken = limit.take(key)
            self.assertTrue(client.take_all(key, [("holding", 2)]))
            limit.peek(key)
            limit.refund(key, taken.receipt)
            limit.set_override(key, "60/h", 3_600_000)
            self.assertEqual(limit.override(key).rate, "60/h")
            self.assertGreater(len(list(limit.overrides())), 0)
            limit.clear_override(key)
            id = unique()
            limit.reserve(key, id, lasting_ms=3_600_000)
            self.assertIn(id, [each.id for each in limit.reservations()])
            self.assertEqual(limit.reservation(key, id).state, "pending")
            limit.commit(key, id)
            limit.reserve(key, id + "-", lasting_ms=3_600_000)
            limit.release(key, id + "-")
            limit.reset(key)
            charged = client.charge(key, [("holding", 3)], id=id + "+")
            self.assertEqual((bool(charged), charged.limits[0].cost), (True, 3))
            self.assertTrue(client.release(key, ["holding"], id + "+"))
            self.assertFalse(client.charge(key, [("tight", 3)]))
        self.assertTrue(limit.take(unique(), rate="100/h"))

    def of_hot(self, client):
        hot, page = client.hot("pages"), unique()
        self.assertIn("pages", [each.space for each in client.hot_spaces()])
        hot.record_many([Edit(page, "1", "a", 5), Edit(page, "2", "b", -5), Edit(page, "3", at=int(time.time() * 1000))])
        hot.record(Edit(page, "4"))
        self.assertEqual(hot.stats(page).unique_editors, 2)
        first = hot.list(1, stats=True)
        self.assertEqual(len(first.pages), 1)
        self.assertTrue(first.pages[0].stats.is_hot)
        hot.list(1, after=first.next)
        self.assertEqual(len(hot.window(page, 0, "2100-01-01T00:00:00Z")), 4)
        self.assertEqual(next(hot.events("0-0")).page != "", True)
        self.assertEqual(hot.remove(page), "hot")
        self.assertGreaterEqual(hot.cleanup(), 0)
        views = client.hot("views")
        self.assertEqual(views.count(page).outcome, "remembered")
        self.assertEqual(views.count(page, 9).outcome, "promoted")
        self.assertTrue(views.count_many({page: 5}).is_complete)
        self.assertEqual(views.count_many((page, 1) for _ in range(6000)).outcomes["counted"], 6000)
        self.assertEqual(views.stats(page).total_edits, 6015)
        self.assertTrue(next(each for each in client.hot_spaces() if each.space == "views").only_counts)

    def of_sessions(self, client):
        self.assertIn("rooms", [each.space for each in client.session_spaces()])
        rooms = client.sessions("rooms")
        one = rooms.activate(unique(), {"theme": "dark"})
        rooms.connect(one.id, "a", one.generation)
        self.assertEqual(rooms.heartbeat(one.id, "a", 1).generation, 1)
        self.assertEqual(rooms.update(one.id, [1], 1), 1)
        self.assertIn(one.id, [each.id for each in rooms.list("active")])
        self.assertGreaterEqual(rooms.counts().active, 1)
        work = client.sessions("work")
        orphan = work.activate(unique(), {"n": 1}, "h")
        work.disconnect(orphan.id, "h", 1)
        self.assertIn(orphan.id, [each.id for each in work.left_for("0s")])
        self.assertTrue(work.cleanup(dry_run=True).dry_run)
        claims = work.claim(1000).claims
        mine = next(each for each in claims if each.id == orphan.id)
        self.assertEqual((mine.config, mine.attempt), ({"n": 1}, 1))
        self.assertGreaterEqual(work.renew(mine), mine.until_ms)
        self.assertEqual({each.outcome for each in work.ack(claims)}, {"deleted"})
        self.assertIsNone(work.get(orphan.id))
        self.assertGreaterEqual(work.cleanup().deleted, 0)
        left = rooms.activate(unique(), {}, "h")
        rooms.disconnect(left.id, "h")
        self.assertEqual(rooms.resume(left.id, "h", 1).generation, 2)
        rooms.disconnect(left.id, "h")
        self.assertEqual(rooms.find(rooms.get(left.id).broadcaster).id, left.id)
        with self.assertRaises(tidegate.Conflict):
            rooms.retry(left.id)
        rooms.delete(left.id)
        self.assertEqual(list(client.sessions("work").dead()), [])

    def of_runs(self, client):
        self.assertIn("main", [each.space for each in client.run_spaces()])
        runs, id = client.runs(), unique()
        attempt = runs.start(id).attempt
        self.assertEqual(runs.update(id, state="processing", total=5, attempt=attempt).state, "processing")
        self.assertEqual(runs.get(id).total, 5)
        self.assertIn(id, [each.run for each in runs.list("processing")])
        self.assertIn(id, [each.run for each in runs.list()])
        runs.processed(id, ["1"])
        runs.is_processed(id, ["1"])
        runs.failed(id, "2", "timeout")
        self.assertEqual([each.item for each in runs.failures(id)], ["2"])
        self.assertEqual([each.item for each in runs.retry_list(id)], ["2"])
        list(runs.failures_of_hour("2026-11-16_08"))
        self.assertEqual(runs.progress(id).failed, 1)
        runs.task_started(id, "t")
        runs.task_finished(id, "t")
        runs.tasks(id)
        charge = unique()
        self.assertTrue(runs.charge(2, id=charge))
        self.assertTrue(runs.release(charge))
        self.assertGreater(runs.quota().remaining, 0)
        runs.finish(id, "failed")
        self.assertEqual(runs.retry(id, attempt).attempt, attempt + 1)
        self.assertGreater(runs.expire(id, 3_600_000), 0)
        runs.delete(id)
        self.assertEqual(runs.start(id).attempt, attempt + 2)
        self.assertGreaterEqual(runs.cleanup(), 0)


if __name__ == "__main__":
    unittest.main()
