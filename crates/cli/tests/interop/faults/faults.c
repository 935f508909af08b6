/*
 * Runs a command and lets one of its calls to the file system fail.
 *
 *     faults ROOT LOG ACTION N ERRNO -- COMMAND [ARGUMENT…]
 *
 * Calls count from 1 if they read or change files below ROOT. The kernel reports each of them before it runs (seccomp user notification), in whichever
 * thread, so that static binaries and raw system calls are covered.
 *
 *     count   no call fails
 *     fail    call N fails with ERRNO
 *     full    from call N on, each call that needs space fails with ERRNO
 *     short   call N, if it is a write, writes half of its bytes
 *     kill    the command is killed before call N
 *
 * Nothing fails any more once the file LOG.over exists. SIGTERM is passed on to the command.
 *
 * LOG gets a line for each call: its number and name, its effect, inode, path, and the offset and length of what it writes. Before a file is synced, its
 * content is copied to LOG.INODE. With the action `kill`, LOG.data gets what is written. Together they tell what a loss of power may leave: the synced
 * content, and any part of the later writes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a call has its path: a file descriptor, or a path relative to one (-1: to the working folder). */
enum kind { DESCRIPTOR, PATH, PATH_AT, TWO_PATHS, TWO_PATHS_AT };
/* What a call does. */
enum effect { READS, WRITES, SYNCS, NAMES };

static const struct call {
    int number;
    const char *name;
    enum kind kind;
    enum effect effect;
} CALLS[] = {
    {SYS_openat, "openat", PATH_AT, NAMES},
    {SYS_read, "read", DESCRIPTOR, READS},
    {SYS_pread64, "pread64", DESCRIPTOR, READS},
    {SYS_write, "write", DESCRIPTOR, WRITES},
    {SYS_writev, "writev", DESCRIPTOR, WRITES},
    {SYS_pwrite64, "pwrite64", DESCRIPTOR, WRITES},
    {SYS_pwritev, "pwritev", DESCRIPTOR, WRITES},
    {SYS_copy_file_range, "copy_file_range", DESCRIPTOR, WRITES},
    {SYS_sendfile, "sendfile", DESCRIPTOR, WRITES},
    {SYS_ftruncate, "ftruncate", DESCRIPTOR, WRITES},
    {SYS_fallocate, "fallocate", DESCRIPTOR, WRITES},
    {SYS_fsync, "fsync", DESCRIPTOR, SYNCS},
    {SYS_fdatasync, "fdatasync", DESCRIPTOR, SYNCS},
    {SYS_mkdirat, "mkdirat", PATH_AT, NAMES},
    {SYS_unlinkat, "unlinkat", PATH_AT, NAMES},
    {SYS_renameat2, "renameat2", TWO_PATHS_AT, NAMES},
    {SYS_linkat, "linkat", TWO_PATHS_AT, NAMES},
#ifdef SYS_open
    {SYS_open, "open", PATH, NAMES},
    {SYS_mkdir, "mkdir", PATH, NAMES},
    {SYS_rmdir, "rmdir", PATH, NAMES},
    {SYS_unlink, "unlink", PATH, NAMES},
    {SYS_rename, "rename", TWO_PATHS, NAMES},
    {SYS_link, "link", TWO_PATHS, NAMES},
    {SYS_renameat, "renameat", TWO_PATHS_AT, NAMES},
#endif
};
enum { COUNT = sizeof CALLS / sizeof *CALLS };

static const char *root, *log_path;
static FILE *lines, *data;
static int command;

static void die(const char *what)
{
    perror(what);
    exit(125);
}

/* Installs the filter and returns the descriptor on which the kernel reports calls. */
static int install(void)
{
    struct sock_filter code[COUNT + 3];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, COUNT - i, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {.len = n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        die("prctl");
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void send_descriptor(int socket, int descriptor)
{
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    if (sendmsg(socket, &message, 0) < 0)
        die("sendmsg");
}

static int receive_descriptor(int socket)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
        exit(125);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
}

/* Writes the path of an open file of another process. */
static void path_of_descriptor(int process, int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, descriptor == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d", process, descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* Writes an absolute path from the memory of another process. */
static void path_of_pointer(int process, int folder, unsigned long pointer, char *path)
{
    char text[PATH_MAX] = {0};
    for (size_t done = 0; done < sizeof text - 1 && !memchr(text, 0, done); done += 64) {
        struct iovec here = {text + done, 64}, there = {(void *)(pointer + done), 64};
        if (process_vm_readv(process, &here, 1, &there, 1, 0) <= 0)
            break;
    }
    if (text[0] == '/') {
        strcpy(path, text);
        return;
    }
    path_of_descriptor(process, folder, path);
    strncat(path, "/", PATH_MAX - strlen(path) - 1);
    strncat(path, text, PATH_MAX - strlen(path) - 1);
}

static int is_below(const char *path)
{
    size_t length = strlen(root);
    return !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

/* Returns the descriptor of a call: of two, the one that is written. */
static int descriptor_of(const struct call *call, const struct seccomp_notif *event)
{
    return call->number == SYS_copy_file_range ? event->data.args[2] : event->data.args[0];
}

/* Writes the path of a call. Returns whether the call is about a file below the root. */
static int path_of_call(const struct call *call, const struct seccomp_notif *event, char *path)
{
    const unsigned long long *at = event->data.args;
    int process = event->pid;
    path[0] = 0;
    switch (call->kind) {
    case DESCRIPTOR:
        path_of_descriptor(process, descriptor_of(call, event), path);
        return is_below(path);
    case PATH:
        path_of_pointer(process, AT_FDCWD, at[0], path);
        return is_below(path);
    case PATH_AT:
        path_of_pointer(process, at[0], at[1], path);
        return is_below(path);
    case TWO_PATHS:
        path_of_pointer(process, AT_FDCWD, at[1], path);
        return is_below(path);
    case TWO_PATHS_AT:
        path_of_pointer(process, at[2], at[3], path);
        return is_below(path);
    }
    return 0;
}

/* Returns whether a call opens a file for reading only. */
static int only_reads(const struct call *call, const struct seccomp_notif *event)
{
    int flags = call->number == SYS_openat ? event->data.args[2] : event->data.args[1];
    int opens = !strncmp(call->name, "open", 4);
    return call->effect == READS || (opens && (flags & O_ACCMODE) == O_RDONLY);
}

static int needs_space(const struct call *call, const struct seccomp_notif *event)
{
    return !only_reads(call, event) && call->effect != SYNCS && strncmp(call->name, "unlink", 6) && strcmp(call->name, "rmdir");
}

/* Copies a file that is about to be synced. */
static void keep(int process, int descriptor)
{
    char from[64], to[PATH_MAX], buffer[1 << 16];
    struct stat about;
    snprintf(from, sizeof from, "/proc/%d/fd/%d", process, descriptor);
    if (stat(from, &about) || !S_ISREG(about.st_mode))
        return;
    snprintf(to, sizeof to, "%s.%lu", log_path, (unsigned long)about.st_ino);
    int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (ssize_t n; source >= 0 && target >= 0 && (n = read(source, buffer, sizeof buffer)) > 0;)
        if (write(target, buffer, n) != n)
            die("copy");
    close(source);
    close(target);
}

/* Does half of a write for the process. Returns the number of bytes, or 0 if the call is no such write. */
static long half_of_write(int command, const struct call *call, const struct seccomp_notif *event)
{
    size_t half = event->data.args[2] / 2;
    if (call->number != SYS_write || half == 0)
        return 0;
    int process = syscall(SYS_pidfd_open, command, 0);
    int descriptor = process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, (int)event->data.args[0], 0);
    char *bytes = malloc(half);
    struct iovec here = {bytes, half}, there = {(void *)event->data.args[1], half};
    long done = 0;
    if (descriptor >= 0 && process_vm_readv(event->pid, &here, 1, &there, 1, 0) == (ssize_t)half)
        done = write(descriptor, bytes, half);
    free(bytes);
    close(descriptor);
    close(process);
    return done;
}

static const struct call *call_of(int number)
{
    for (int i = 0; i < COUNT; i++)
        if (CALLS[i].number == number)
            return &CALLS[i];
    return NULL;
}

/* Returns where a write begins: at the position of the descriptor, or at the end of a file that is open for appending. */
static long long offset_of(const struct call *call, const struct seccomp_notif *event, long long size)
{
    if (call->number == SYS_pwrite64)
        return event->data.args[3];
    char about[64];
    long long position = -1;
    unsigned flags = 0;
    snprintf(about, sizeof about, "/proc/%d/fdinfo/%d", event->pid, (int)event->data.args[0]);
    FILE *file = fopen(about, "r");
    int found = file ? fscanf(file, "pos: %lld flags: %o", &position, &flags) : 0;
    if (file)
        fclose(file);
    return found < 2 ? -1 : flags & O_APPEND ? size : position;
}

/* Copies what a call writes to LOG.data. Returns its length, or -1 if it is not known: the call writes in another way. */
static long copy_written(const struct call *call, const struct seccomp_notif *event)
{
    size_t length = event->data.args[2];
    if (!data || (call->number != SYS_write && call->number != SYS_pwrite64))
        return -1;
    char *bytes = malloc(length + 1);
    struct iovec here = {bytes, length}, there = {(void *)event->data.args[1], length};
    int copied = length == 0 || process_vm_readv(event->pid, &here, 1, &there, 1, 0) == (ssize_t)length;
    if (copied && fwrite(bytes, 1, length, data) != length)
        die("copy");
    free(bytes);
    fflush(data);
    return copied ? (long)length : -1;
}

/* Returns whether a call removes the file at its path, or replaces it. */
static int removes(const struct call *call)
{
    return !strncmp(call->name, "unlink", 6) || !strncmp(call->name, "rename", 6);
}

static void log_call(long number, const struct call *call, const struct seccomp_notif *event, const char *path)
{
    struct stat about = {0};
    char link[64];
    if (call->kind == DESCRIPTOR) {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", event->pid, descriptor_of(call, event));
        if (stat(link, &about))
            about.st_ino = 0;
    } else if (removes(call) && !lstat(path, &about) && about.st_nlink == 1) {
        /* A new file may get the same inode. */
        char kept[PATH_MAX];
        snprintf(kept, sizeof kept, "%s.%lu", log_path, (unsigned long)about.st_ino);
        unlink(kept);
    } else {
        about.st_ino = 0;
    }
    long length = call->effect == WRITES ? copy_written(call, event) : -1;
    long long offset = length < 0 ? -1 : offset_of(call, event, about.st_size);
    const char *effect = only_reads(call, event) ? "reads" : call->effect == WRITES ? "writes" : call->effect == SYNCS ? "syncs" : "names";
    fprintf(lines, "%ld\t%s\t%s\t%lu\t%s\t%lld\t%ld\n", number, call->name, effect, (unsigned long)about.st_ino, path, offset, length);
    fflush(lines);
}

static int is_over(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.over", log_path);
    return !access(path, F_OK);
}

/* Answers calls until the command has ended. Returns the status of the command. */
static int supervise(int listener, const char *action, long nth, int error)
{
    static struct seccomp_notif event;
    static struct seccomp_notif_resp answer;
    long number = 0;
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        int status;
        if (waitpid(command, &status, WNOHANG) == command)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (poll(&ready, 1, 20) <= 0 || !(ready.revents & POLLIN))
            continue;
        memset(&event, 0, sizeof event);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &event))
            continue;
        const struct call *call = call_of(event.data.nr);
        char path[PATH_MAX];
        answer = (struct seccomp_notif_resp){.id = event.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        if (call && path_of_call(call, &event, path)) {
            number++;
            log_call(number, call, &event, path);
            int is_nth = number == nth && !is_over();
            if (is_nth && !strcmp(action, "kill")) {
                kill(command, SIGKILL);
                continue;
            }
            int fails = (is_nth && !strcmp(action, "fail")) || (number >= nth && !strcmp(action, "full") && needs_space(call, &event) && !is_over());
            long done = is_nth && !strcmp(action, "short") ? half_of_write(command, call, &event) : 0;
            if (fails || done > 0)
                answer = (struct seccomp_notif_resp){.id = event.id, .error = fails ? -error : 0, .val = done};
            else if (call->effect == SYNCS)
                keep(event.pid, event.data.args[0]);
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

static void stop(int signal)
{
    kill(command, signal);
}

int main(int count, char **arguments)
{
    if (count < 8)
        return fputs("usage: faults ROOT LOG ACTION N ERRNO -- COMMAND [ARGUMENT...]\n", stderr), 125;
    root = arguments[1];
    log_path = arguments[2];
    lines = fopen(log_path, "w");
    if (!strcmp(arguments[3], "kill")) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s.data", log_path);
        data = fopen(path, "w");
    }
    int sockets[2];
    if (!lines || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        die(log_path);
    command = fork();
    if (command == 0) {
        close(sockets[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int listener = install();
        if (listener < 0)
            die("seccomp");
        send_descriptor(sockets[1], listener);
        close(listener);
        close(sockets[1]);
        execvp(arguments[7], arguments + 7);
        die(arguments[7]);
    }
    close(sockets[1]);
    signal(SIGTERM, stop);
    return supervise(receive_descriptor(sockets[0]), arguments[3], atol(arguments[4]), atoi(arguments[5]));
}
