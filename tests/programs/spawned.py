"""A pool of spawned processes, and a spawned process that answers through a pipe."""
import torch
import torch.multiprocessing as mp


def norm(size):
    torch.set_num_threads(1)
    return torch.full((size,), 2.0).norm().item()


def serve(connection):
    torch.set_num_threads(1)
    while (rows := connection.recv()) is not None:
        connection.send(torch.tensor(rows).softmax(-1).argmax().item())


def ask(connection, rows):
    connection.send(rows)
    return connection.recv()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    with context.Pool(2) as pool:
        norms = pool.map(norm, [1, 4, 9], chunksize=1)
        pool.close()
        pool.join()
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,))
    server.start()
    answers = [ask(ours, [0.0, number, 1.0]) for number in (-2.0, 2.0)]
    ours.send(None)
    server.join()
    print(norms, answers, server.exitcode)
