"""The servers that are recorded: the binary on a configuration of its own, and a Redis of its own."""

import os
import socket
import subprocess
import threading
import time

# Windows are days and leases are hours, so that nothing ends while it is recorded; what has to end has
# a space of its own. Days end at midnight in UTC: `wait_for_a_quiet_hour` keeps clear of it.
CONFIG = """\
listen: 127.0.0.1:0
store: {url: "%(url)s", deadline: 20s, connect_timeout: 20s, check_interval: 100ms}
http: {max_body_bytes: 70000, drain_delay: 5s, request_timeout: 1m, header_timeout: 1m, trusted_network: false}
limits:
  api: {rate: 10/d, window: 24h, coalesce: 24h}
  roomy: {rate: 100000/d, window: 24h, coalesce: 24h, outage: local, nodes: 4}
  shared: {rate: 20/d, window: 24h, coalesce: 24h, outage: local, local_share: 0.5}
  closed: {rate: 10/d, window: 24h, coalesce: 24h, outage: closed, closed_status: 503, after_loss: hold}
  refusing: {rate: 10/d, window: 24h, coalesce: 24h, outage: closed}
  holding: {rate: 10/d, window: 24h, coalesce: 24h, after_loss: hold, on_lapse: give_back, max_reservations: 2}
  few: {rate: 10/d, window: 24h, coalesce: 24h, max_keys: 3}
  together: {rate: 4/d, window: 24h, coalesce: 24h, max_keys: 3, when_full: share}
  default: {}
  thinned: {algorithm: suppressed, rate: 5/d, window: 24h, coalesce: 24h}
  sampled: {algorithm: suppressed, rate: 5/d, window: 24h, coalesce: 24h, hard_limit_factor: 900}
  smooth: {algorithm: smooth, rate: 5/d, window: 24h, coalesce: 24h}
  bucket: {algorithm: token, rate: 1/d, burst: 5}
  daily: {algorithm: calendar, limit: 30, period: day, safety_buffer: 5, counter_ttl: 49h}
  hourly: {algorithm: calendar, limit: 30, period: hour}
  leased: {rate: 1000/d, window: 24h, coalesce: 24h, lease: true, lease_duration: 1h, nodes: 2}
hot:
  pages: {max_tracked: 5, promotion_threshold: 3, window_duration: 1h, max_members_per_page: 4,
    hot_threshold: 2, cleanup_interval: 1h, spike_minimum: 4, max_activity: 1000}
  swapped: {max_tracked: 2, promotion_threshold: 3, window_duration: 1h, max_members_per_page: 10,
    hot_threshold: 2, cleanup_interval: 1h, when_full: replace_coldest}
  views: {max_tracked: 3, promotion_threshold: 20, window_duration: 1h, max_members_per_page: 0,
    hot_threshold: 10, cleanup_interval: 1h, max_activity: 1000}
  brief: {max_tracked: 5, promotion_threshold: 3, window_duration: 1s, max_members_per_page: 10,
    hot_threshold: 2, cleanup_interval: 24h}
sessions:
  sessions: {grace: 1h, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 1h, max_holders: 2, max_sessions: 200}
  small: {grace: 1h, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 1h, max_sessions: 2}
  work: {grace: 0s, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h, reap: claims, claim_lease: 1h, batch: 3}
  dying: {grace: 0s, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h,
    reap: claims, claim_lease: 1s, max_attempts: 1}
runs:
  main: {state_ttl: 24h, cleanup_interval: 24h, quota: {kind: sliding, limit: 30, safety_buffer: 5}}
  small: {prefix: small, state_ttl: 24h, cleanup_interval: 24h, max_runs: 3, max_fields: 2, max_processed: 5,
    max_failures: 2, max_tasks: 2, max_reason_bytes: 10, quota: {kind: both, limit: 5, safety_buffer: 1}}
rules: {url: "sqlite:%(folder)s/rules.db"}
log: {level: error}
"""

# Whatever is too slow for this one is meant to be.
IMPATIENT = """\
listen: 127.0.0.1:0
http: {request_timeout: 300ms, header_timeout: 300ms, bulk_timeout: 700ms, idle_timeout: 300ms}
limits: {api: {rate: 10/d, window: 24h}}
log: {level: error}
"""

# Only the settings that are given here count.
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TERM": "dumb"}


class Server:
    """A `tidegate serve`."""

    def __init__(self, binary, folder, name, config):
        path = os.path.join(folder, f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        self.config = path
        self.log = open(os.path.join(folder, f"{name}.log"), "wb")
        command = ["tidegate", "serve", "--config", path]
        self.process = subprocess.Popen(
            command, executable=binary, stdout=subprocess.PIPE, stderr=self.log, env=ENVIRONMENT
        )
        address = self.process.stdout.readline().decode().strip()
        if not address:
            self.stop()
            raise SystemExit(f"{binary} does not serve: {open(self.log.name).read().strip()}")
        self.address = address.removeprefix("http://")
        self.port = int(self.address.rsplit(":", 1)[1])

    def terminate(self):
        self.process.terminate()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Redis:
    """A `redis-server` that keeps nothing on disk."""

    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        command = [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", self.folder]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit(f"{self.program} does not start on port {self.port}")
            time.sleep(0.02)

    def command(self, *words):
        """Runs one command; what it answers, as it came."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            sent = b"*%d\r\n" % len(words)
            for word in words:
                sent += b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
            connection.sendall(sent)
            return connection.recv(65536)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def wait_for_a_quiet_hour():
    """Counts of a day begin anew at midnight in UTC: no recording may run across it."""
    left = 86_400 - time.time() % 86_400
    if left < 900:
        print(f"answers: waiting {left:.0f} s for midnight in UTC to pass", flush=True)
        time.sleep(left + 2)


def run(binary, arguments, folder, stdin=b"", limit_s=90):
    """Runs the command line: exit status, standard output, standard error."""
    # Whatever its file is called: usage begins with the name of the program.
    command = ["tidegate", *arguments]
    done = subprocess.run(
        command, executable=binary, input=stdin, capture_output=True, cwd=folder, env=ENVIRONMENT, timeout=limit_s, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


class Later(threading.Thread):
    """Does something else meanwhile, and hands over what came of it."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.result = work, None
        self.start()

    def run(self):
        self.result = self.work()

    def wait(self):
        self.join(timeout=120)
        return self.result
