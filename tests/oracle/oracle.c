// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel tree's own Kconfig reader as a server, for tests.
 *
 *	oracle KCONFIG SOCKET
 *
 * Linked with the objects of the tree's scripts/kconfig but conf.o. Reads the
 * Kconfig files once, then says "ready" on standard output and waits at SOCKET.
 * Each connection sends the name of a configuration file and the end of its
 * input. A process of its own, forked from the state after the reading, then
 * does what `conf --olddefconfig` does with that file, its messages going to
 * FILE.log, and answers with the exit status that conf would have. It ends
 * when its standard input does.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lkc.h"

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path)) {
		fprintf(stderr, "oracle: %s: the name is too long\n", path);
		exit(2);
	}
	strcpy(address.sun_path, path);
	if (server < 0 ||
	    bind(server, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(server, 64)) {
		perror(path);
		exit(2);
	}
	return server;
}

/* What conf's main() does for olddefconfig after the reading. */
static int olddefconfig(void)
{
	conf_read(NULL);
	if (conf_errors() || sym_dep_errors())
		return 1;
	return conf_write(NULL) ? 1 : 0;
}

static _Noreturn void answer(int client)
{
	char path[4096], log[4096 + 4];
	size_t length = 0;
	ssize_t got;
	int out;

	while (length < sizeof(path) - 1 &&
	       (got = read(client, path + length, sizeof(path) - 1 - length)) > 0)
		length += got;
	path[length] = '\0';
	snprintf(log, sizeof(log), "%s.log", path);
	out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (out < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0)
		_exit(2);
	setenv("KCONFIG_CONFIG", path, 1);
	int status = olddefconfig();

	fflush(NULL);
	dprintf(client, "%d\n", status);
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: oracle KCONFIG SOCKET\n");
		return 2;
	}
	conf_parse(argv[1]);
	/* Not before: the tree's own commands are waited for. */
	signal(SIGCHLD, SIG_IGN);

	int server = listen_at(argv[2]);
	struct pollfd wait[] = {
		{ .fd = server, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};

	printf("ready\n");
	fflush(NULL);
	while (poll(wait, 2, -1) >= 0 && !wait[1].revents) {
		int client = accept(server, NULL, NULL);

		if (client < 0)
			continue;
		switch (fork()) {
		case 0:
			close(server);
			answer(client);
		case -1:
			perror("fork");
		}
		close(client);
	}
	return 0;
}
