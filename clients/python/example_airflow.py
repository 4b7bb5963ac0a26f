"""A pipeline that fetches dockets from an API with an hourly quota, for Airflow or by hand.

It does what hooks of such pipelines do straight on Redis, through a Tidegate server:

| such a hook                                   | here                                                         |
|-----------------------------------------------|--------------------------------------------------------------|
| `initialize_pipeline_state(dag_run_id)`       | `begin`: starts the run, or leads on one that has failed     |
| `update_pipeline_state(status=...)`           | `run.update(state=...)`                                      |
| `update_pipeline_state(dockets_processed=..)` | `run.processed(...)`, which only adds                        |
| caching the start time of a task              | `with run.task(...)`                                         |
| incrementing the counter of the hour          | `run.charge()`, once however often it is sent                |
| pushing onto the list of failed dockets       | `run.failed(docket, reason)`, one entry each                 |
| `is_connection_healthy()`                     | `client.store_health().healthy`                              |
| `get_connection_metrics()`                    | `client.store_health()`                                      |

By hand, with an API of its own that always answers:

    python3 example_airflow.py --server http://127.0.0.1:8080 --run manual_2024-09-17T14:30:00+00:00 --dockets 100

Run again it does nothing, since all is done; killed in the middle it goes on where it was.
"""

import argparse
import itertools
import json
import os
import sys
from typing import Callable, Dict, Iterable, Iterator, List

import tidegate

SERVER = os.environ.get("TIDEGATE_URL", "http://127.0.0.1:8080")

# So many dockets are noted at once: as many may be fetched twice by a worker that is killed.
BATCH = 20

Fetch = Callable[[str], None]


class QuotaUsedUp(Exception):
    """There is no room in the quota: try again after `retry_after_s`."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"the quota is used up for {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


def begin(runs: tidegate.Runs, run_id: str, total: int) -> int:
    """The first task: the attempt that all others belong to. A run that has succeeded is refused."""
    found = runs.get(run_id)
    is_to_retry = found is not None and found.state in ("failed", "cancelled")
    run = runs.run(run_id, total=total, fields={"pipeline": "dockets"}, retry_ended=is_to_retry)
    return run.attempt


def process(
    runs: tidegate.Runs, run_id: str, attempt: int, dockets: Iterable[str], fetch: Fetch
) -> Dict[str, int]:
    """The task that does the work: fetches what is not processed. Many may do it at once, each its own part."""
    run = runs.join(run_id, attempt)
    run.update(state="processing")
    fetched = failed = 0
    with run.task("process_dockets"):
        for batch in in_batches(run.not_processed(dockets), BATCH):
            done: List[str] = []
            try:
                for docket in batch:
                    # Every call that is made is charged, once: the client makes an id for it, and sends it again with that
                    # if an answer is lost. One made of docket and try would let whoever comes to it again call for free:
                    # a task that waited for the quota goes on in the same try, with what failed in it before.
                    charge = run.charge()
                    if not charge:
                        run.update(state="paused", fields={"paused_by": charge.by})
                        raise QuotaUsedUp((charge.retry_after_ms or 0) / 1000)
                    try:
                        fetch(docket)
                    except OSError as error:
                        run.failed(docket, str(error))
                        failed += 1
                    else:
                        done.append(docket)
            finally:
                # Also what was done before the quota was used up.
                if done:
                    fetched += run.processed(done).new
    return {"fetched": fetched, "failed": failed}


def end(runs: tidegate.Runs, run_id: str, attempt: int) -> str:
    """The last task: the run has succeeded if nothing is left to be tried again."""
    run = runs.join(run_id, attempt)
    is_left = next(run.retry_list(), None) is not None
    return run.finish("failed" if is_left else "succeeded").state


def in_batches(items: Iterable[str], size: int) -> Iterator[List[str]]:
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


# ---------------------------------------------------------------------------------------------------------------------
# As a DAG. Without Airflow the rest of this file is all there is.

try:
    import pendulum
    from airflow.decorators import dag, task
    from airflow.exceptions import AirflowRescheduleException, AirflowSkipException
except ImportError:
    pass
else:

    def fetch_docket(docket: str) -> None:
        """The call to the API: raises OSError if it fails."""
        raise NotImplementedError(f"fetch {docket} here")

    @dag(schedule=None, start_date=pendulum.datetime(2024, 9, 17), catchup=False)
    def dockets_pipeline():
        @task
        def begin_run(dockets: List[str], run_id: str = "") -> int:
            runs = tidegate.Client(SERVER).runs()
            try:
                return begin(runs, run_id, len(dockets))
            except tidegate.Conflict as refused:
                raise AirflowSkipException(f"the run is over: {refused}") from refused

        @task(retries=3)
        def process_dockets(attempt: int, dockets: List[str], run_id: str = "") -> Dict[str, int]:
            runs = tidegate.Client(SERVER).runs()
            try:
                return process(runs, run_id, attempt, dockets, fetch_docket)
            except QuotaUsedUp as refused:
                # The worker is free meanwhile, and goes on with what is left.
                again = pendulum.now("UTC").add(seconds=refused.retry_after_s)
                raise AirflowRescheduleException(again) from refused

        @task(trigger_rule="all_done")
        def end_run(attempt: int, run_id: str = "") -> str:
            return end(tidegate.Client(SERVER).runs(), run_id, attempt)

        dockets = [str(number) for number in range(12345, 12445)]
        attempt = begin_run(dockets)
        process_dockets(attempt, dockets) >> end_run(attempt)

    dockets_pipeline()


# ---------------------------------------------------------------------------------------------------------------------
# By hand


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=SERVER)
    parser.add_argument("--space", default="main")
    parser.add_argument("--run", required=True, help="its id, like Airflow's")
    parser.add_argument("--dockets", type=int, default=100, help="how many there are")
    parser.add_argument("--failing", default="", help="dockets that fail, with commas between")
    parser.add_argument("--die-at", default="", help="the docket at which the process is gone at once")
    options = parser.parse_args()
    failing = set(filter(None, options.failing.split(",")))

    def fetch(docket: str) -> None:
        if docket == options.die_at:
            os._exit(9)
        if docket in failing:
            raise OSError("503 Service Unavailable")

    dockets = [f"{number:03}" for number in range(options.dockets)]
    with tidegate.Client(options.server, deadline=30.0) as client:
        runs = client.runs(options.space)
        try:
            attempt = begin(runs, options.run, len(dockets))
        except tidegate.Conflict as refused:
            print(json.dumps({"state": refused.members["state"], "fetched": 0, "failed": 0}))
            return 0
        try:
            told = process(runs, options.run, attempt, dockets, fetch)
        except QuotaUsedUp as refused:
            print(json.dumps({"state": "paused", "retry_after_s": refused.retry_after_s}))
            return 3
        state = end(runs, options.run, attempt)
        print(json.dumps({"state": state, "attempt": attempt, **told}))
        return 0 if state == "succeeded" else 1


if __name__ == "__main__":
    sys.exit(main())
