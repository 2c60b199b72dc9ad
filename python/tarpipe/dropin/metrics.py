"""The progress lines and wandb metrics of img2dataset."""

import json
import math
import tempfile
import time

NOUNS = {"img": "images", "vid": "videos"}


class Metrics:
    """Prints img2dataset's lines for each finished shard and in total, and logs them to a file and to wandb."""

    def __init__(self, program, storage, done, project=None, config=None, processed="resize", noun="img"):
        self.program, self.storage, self.seen, self.processed, self.noun = program, storage, set(done), processed, noun
        self.total, self.statuses, self.file, self.wandb = None, {}, None, None
        if project is not None:
            self.file = self.open_file()
            try:
                import wandb

                wandb.init(project=project, config=config, anonymous="allow")
                self.wandb = wandb
            except ImportError:
                pass

    def open_file(self):
        """The file of metrics. That of a dataset in a store is uploaded at the end."""
        if not self.storage.is_local:
            return tempfile.TemporaryFile("w+")
        folder = self.storage.path / f".{self.program}"
        folder.mkdir(exist_ok=True)
        return open(folder / "metrics.jsonl", "a", buffering=1)

    def look_again(self):
        """Reports new shards, unless a listing of the store would come too soon after the last one."""
        if self.storage.may_look():
            self.look()

    def look(self):
        """Reports all new shards, and returns the finished ones."""
        found = self.storage.stats_files()
        new = sorted(found.keys() - self.seen)
        for number, stats in zip(new, self.storage.read_all_json([found[number] for number in new])):
            self.seen.add(number)
            self.log("worker", stats)
            self.add(stats)
            self.log("total", self.total)
            self.log_statuses()
        return set(found)

    def add(self, stats):
        counts = ["count", "successes", "failed_to_download", f"failed_to_{self.processed}"]
        if self.total is None:
            self.total = {**{name: 0 for name in counts}, "start_time": math.inf, "end_time": -math.inf}
        counts += ["bytes_downloaded"] if "bytes_downloaded" in stats else []
        for name in counts:
            self.total[name] = self.total.get(name, 0) + stats[name]
        self.total["start_time"] = min(self.total["start_time"], stats["start_time"])
        self.total["end_time"] = max(self.total["end_time"], stats["end_time"])
        for status, count in stats["status_dict"].items():
            self.statuses[status] = self.statuses.get(status, 0) + count

    def log(self, prefix, stats):
        count = max(stats["count"], 1)
        rate = stats["count"] / max(stats["end_time"] - stats["start_time"], 0.001)
        bytes_per_second = stats.get("bytes_downloaded", 0) / max(stats["end_time"] - stats["start_time"], 0.001)
        byte_rate = f"bytes per sec: {bytes_per_second:.0f} - " if "bytes_downloaded" in stats else ""
        failed = [stats["failed_to_download"] / count, stats[f"failed_to_{self.processed}"] / count]
        print(
            f"{prefix:<7} - success: {stats['successes'] / count:.3f} - failed to download: {failed[0]:.3f} - failed to "
            f"{self.processed}: {failed[1]:.3f} - {NOUNS.get(self.noun, 'samples')} per sec: {rate:.0f} - "
            f"{byte_rate}count: {stats['count']}",
            flush=True,
        )
        self.send(
            {
                f"{prefix}/{self.noun}_per_sec": rate,
                **({f"{prefix}/bytes_per_sec": bytes_per_second} if byte_rate else {}),
                f"{prefix}/success": stats["successes"] / count,
                f"{prefix}/failed_to_download": failed[0],
                f"{prefix}/failed_to_{self.processed}": failed[1],
                f"{prefix}/count": stats["count"],
            }
        )

    def log_statuses(self):
        common = sorted(self.statuses.items(), key=lambda item: -item[1])[:100]
        rows = [[status, count / max(self.total["count"], 1), count] for status, count in common]
        if self.file:
            self.file.write(json.dumps({"status": rows}) + "\n")
        if self.wandb:
            self.wandb.log({"status": self.wandb.Table(columns=["status", "frequency", "count"], data=rows)})

    def send(self, values):
        if self.file:
            self.file.write(json.dumps({"time": time.time(), **values}) + "\n")
        if self.wandb:
            self.wandb.log(values)

    def finish(self):
        if self.file and not self.storage.is_local:
            self.file.seek(0)
            self.storage.write(f".{self.program}/metrics-{int(time.time())}.jsonl", self.file.read())
        if self.file:
            self.file.close()
        if self.wandb:
            self.wandb.finish()
