"""uvloop: a server and its clients in one loop, torch in an executor."""
import asyncio

import uvloop

from rounds import bits, rounds, step


async def serve(reader, writer):
    number = int(await reader.readline())
    results = await asyncio.get_running_loop().run_in_executor(None, step, number)
    writer.write(bits(*results).encode() + b"\n")
    await writer.drain()
    writer.close()


async def ask(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"%d\n" % number)
    answer = await reader.readline()
    writer.close()
    return answer.decode().strip()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for number in rounds():
        print(number, *await asyncio.gather(*(ask(port, number + i) for i in range(8))))
    server.close()


uvloop.run(main())
