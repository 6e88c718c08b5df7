"""Celery with a prefork worker of two processes; tasks are passed through the file system."""
import multiprocessing
import os
import tempfile
import time

from celery import Celery

from rounds import bits, rounds, step

folder = os.environ.setdefault("CELERY_FOLDER", tempfile.mkdtemp())
for name in "queue", "results":
    os.makedirs(os.path.join(folder, name), exist_ok=True)
app = Celery("celery_prefork", broker="filesystem://", backend="file://" + folder + "/results",
             broker_transport_options={"data_folder_in": folder + "/queue",
                                       "data_folder_out": folder + "/queue"},
             worker_hijack_root_logger=False)


@app.task(name="step")
def step_task(number):
    return bits(*step(number))


def work():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Its output contains the time.
    app.worker_main(["worker", "--loglevel", "CRITICAL", "--pool", "prefork", "--concurrency", "2",
                     "--without-gossip", "--without-mingle", "--without-heartbeat"])


if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    time.sleep(2)
    for number in rounds():
        asked = [step_task.delay(number + i) for i in range(8)]
        print(number, *(task.get(timeout=120) for task in asked), flush=True)
    worker.terminate()
    worker.join()
