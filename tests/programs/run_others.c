/* Promise: exec, posix_spawn, vfork, system and popen work as without us, and each image that runs writes its own
 * profile. `run_others PROGRAM` runs PROGRAM in five ways and then becomes it. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int wait_for(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char *program[] = {argv[1], "allocate", NULL};
    char *keep = strdup("kept over all of it");
    for (int i = 0; i < 1000; i++) free(malloc(30));

    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[1], program);
        _exit(1);
    }
    int good = wait_for(pid);

    pid = vfork();
    if (pid == 0) {
        execv(argv[1], program);
        _exit(1);
    }
    good += wait_for(pid);

    good += posix_spawn(&pid, argv[1], NULL, NULL, program, environ) == 0 && wait_for(pid);

    char *line;
    if (asprintf(&line, "'%s' allocate", argv[1]) < 0) return 2;
    good += system(line) == 0;

    FILE *pipe = popen(line, "r");
    char text[64] = "";
    good += pipe && fgets(text, sizeof text, pipe) && pclose(pipe) == 0;
    free(line);
    printf("%d of 5 ways, %s\n", good, keep);
    fflush(stdout);
    free(keep);
    execv(argv[1], program);
    return 1;
}
