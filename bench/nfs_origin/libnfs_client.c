// What libnfs alone gets from a server, for bench/nfs-origin; prints bytes and seconds.
//   libnfs_client stream URL PATH DEPTH    one file in order, DEPTH asynchronous reads of 1 MiB under way
//   libnfs_client files URL LIST THREADS   the files of LIST, a path in each line; each thread has a context of its own
//   libnfs_client write URL PATH SIZE      a file of SIZE bytes, by 1 MiB, and fsync
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <nfsc/libnfs.h>

enum { MIB = 1 << 20 };

static void stop(const char *what, struct nfs_context *nfs) {
    fprintf(stderr, "libnfs_client: %s: %s\n", what, nfs ? nfs_get_error(nfs) : "");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct nfs_context *mounted(const char *url) {
    struct nfs_context *nfs = nfs_init_context();
    struct nfs_url *parts = nfs_parse_url_dir(nfs, url);
    if (!parts) stop("the URL", nfs);
    if (nfs_mount(nfs, parts->server, parts->path)) stop("mounting", nfs);
    nfs_destroy_url(parts);
    return nfs;
}

struct stream {
    struct nfs_context *nfs;
    struct nfsfh *file;
    uint64_t size, next, got;
    unsigned under_way;
};

static void more(struct stream *stream);

static void came(int count, struct nfs_context *nfs, void *data, void *user) {
    (void)data;
    struct stream *stream = user;
    if (count < 0) stop("reading", nfs);
    stream->got += (uint64_t)count;
    --stream->under_way;
    more(stream);
}

static void more(struct stream *stream) {
    if (stream->next >= stream->size) return;
    uint64_t length = stream->size - stream->next < MIB ? stream->size - stream->next : MIB;
    if (nfs_pread_async(stream->nfs, stream->file, stream->next, length, came, stream)) stop("reading", stream->nfs);
    stream->next += length;
    ++stream->under_way;
}

static void read_stream(const char *url, const char *path, int depth) {
    struct stream stream = {.nfs = mounted(url)};
    double began = now();
    struct nfs_stat_64 stat;
    if (nfs_open(stream.nfs, path, O_RDONLY, &stream.file)) stop(path, stream.nfs);
    if (nfs_fstat64(stream.nfs, stream.file, &stat)) stop(path, stream.nfs);
    stream.size = stat.nfs_size;
    for (int i = 0; i < depth; ++i) more(&stream);
    while (stream.under_way) {
        struct pollfd wanted = {.fd = nfs_get_fd(stream.nfs), .events = (short)nfs_which_events(stream.nfs)};
        if (poll(&wanted, 1, 10000) < 0 || nfs_service(stream.nfs, wanted.revents) < 0) stop("reading", stream.nfs);
    }
    printf("%llu %f\n", (unsigned long long)stream.got, now() - began);
}

struct share {
    const char *url;
    char **names;
    size_t count, first, step;
    uint64_t bytes;
};

static void *read_share(void *user) {
    struct share *share = user;
    struct nfs_context *nfs = mounted(share->url);
    char *buffer = malloc(MIB);
    for (size_t i = share->first; i < share->count; i += share->step) {
        struct nfsfh *file;
        if (nfs_open(nfs, share->names[i], O_RDONLY, &file)) stop(share->names[i], nfs);
        int got;
        while ((got = nfs_read(nfs, file, MIB, buffer)) > 0) share->bytes += (uint64_t)got;
        if (got < 0) stop(share->names[i], nfs);
        nfs_close(nfs, file);
    }
    free(buffer);
    nfs_destroy_context(nfs);
    return NULL;
}

static void read_files(const char *url, const char *list, int threads) {
    FILE *file = fopen(list, "r");
    if (!file) stop(list, NULL);
    char **names = NULL, line[4096] = "/";
    size_t count = 0, room = 0;
    while (fgets(line + 1, sizeof line - 1, file)) {
        line[strcspn(line, "\n")] = 0;
        if (count == room) names = realloc(names, (room = room ? 2 * room : 1024) * sizeof *names);
        names[count++] = strdup(line);
    }
    fclose(file);
    pthread_t ids[64];
    struct share shares[64];
    double began = now();
    for (int i = 0; i < threads; ++i) {
        shares[i] = (struct share){url, names, count, (size_t)i, (size_t)threads, 0};
        pthread_create(&ids[i], NULL, read_share, &shares[i]);
    }
    uint64_t bytes = 0;
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
        bytes += shares[i].bytes;
    }
    printf("%llu %f\n", (unsigned long long)bytes, now() - began);
}

static void write_file(const char *url, const char *path, uint64_t size) {
    struct nfs_context *nfs = mounted(url);
    char *buffer = malloc(MIB);
    memset(buffer, 'x', MIB);
    double began = now();
    struct nfsfh *file;
    if (nfs_creat(nfs, path, 0644, &file)) stop(path, nfs);
    for (uint64_t done = 0; done < size; done += MIB) {
        if (nfs_write(nfs, file, MIB, buffer) != MIB) stop("writing", nfs);
    }
    if (nfs_fsync(nfs, file)) stop("fsync", nfs);
    printf("%llu %f\n", (unsigned long long)size, now() - began);
    nfs_close(nfs, file);
    nfs_unlink(nfs, path);
}

int main(int count, char **words) {
    if (count != 5) stop("wrong usage", NULL);
    if (!strcmp(words[1], "stream")) {
        read_stream(words[2], words[3], atoi(words[4]));
    } else if (!strcmp(words[1], "files")) {
        int threads = atoi(words[4]);
        if (threads < 1 || threads > 64) stop("wrong number of threads", NULL);
        read_files(words[2], words[3], threads);
    } else if (!strcmp(words[1], "write")) {
        write_file(words[2], words[3], strtoull(words[4], NULL, 10));
    } else {
        stop("wrong usage", NULL);
    }
    return 0;
}
