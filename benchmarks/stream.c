/* Compiled access patterns, to hold the probe against.
 *
 *   cc -O3 -march=native -fopenmp -fPIC -shared stream.c -o stream.so
 *
 * A library, so that its kernels and those of the probe can take turns launch by launch: `stream_open` allocates and
 * fills, `stream_run` runs one kernel once. A copy of n bytes counts 2n, a triad 3n; the line that a plain store reads
 * first is not counted. Kernels: see the table below.
 */
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

typedef float vector __attribute__((vector_size(32)));

#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(target, value) __builtin_nontemporal_store((value), (target))
#endif
#endif
#if !defined(STREAM) && defined(__AVX__)
#include <immintrin.h>
#define STREAM(target, value) _mm256_stream_ps((float *)(target), (__m256)(value))
#endif
#if !defined(STREAM)
#define STREAM(target, value) (*(target) = (value))
#define STREAM_IS_PLAIN 1
#endif

static vector *memory, *target; /* what is read, and half as much that is written */
static size_t vectors;          /* of what is read */
static volatile float sink;

/* The part of `count` vectors that this thread works on: whole groups of 8. */
static void part(size_t count, size_t *first, size_t *last)
{
    size_t groups = count / 8, threads = omp_get_num_threads(), me = omp_get_thread_num();
    *first = groups * me / threads * 8;
    *last = groups * (me + 1) / threads * 8;
}

static size_t read_sum(void)
{
    float total = 0;
#pragma omp parallel reduction(+ : total)
    {
        size_t first, last;
        part(vectors, &first, &last);
        vector a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
        for (size_t i = first; i < last; i += 8) {
            a += memory[i];
            b += memory[i + 1];
            c += memory[i + 2];
            d += memory[i + 3];
            e += memory[i + 4];
            f += memory[i + 5];
            g += memory[i + 6];
            h += memory[i + 7];
        }
        a += b + c + d + e + f + g + h;
        for (int k = 0; k < 8; k++) total += a[k];
    }
    sink = total;
    return vectors * sizeof(vector);
}

/* Two streams per thread, and no arithmetic that could wait: the integer or of both halves. */
static size_t read_two(void)
{
    typedef uint64_t bits __attribute__((vector_size(32)));
    const bits *words = (const bits *)memory;
    uint64_t total = 0;
#pragma omp parallel reduction(| : total)
    {
        size_t first, last, half = vectors / 2;
        part(half, &first, &last);
        bits a = {0}, b = {0}, c = {0}, d = {0};
        for (size_t i = first; i < last; i += 4) {
            a |= words[i] | words[half + i];
            b |= words[i + 1] | words[half + i + 1];
            c |= words[i + 2] | words[half + i + 2];
            d |= words[i + 3] | words[half + i + 3];
        }
        a |= b | c | d;
        total |= a[0] | a[1] | a[2] | a[3];
    }
    sink = (float)total;
    return vectors / 8 / 2 * 8 * 2 * sizeof(vector);
}

static size_t read_ahead(void)
{
    float total = 0;
#pragma omp parallel reduction(+ : total)
    {
        size_t first, last;
        part(vectors, &first, &last);
        vector a = {0}, b = {0}, c = {0}, d = {0};
        for (size_t i = first; i < last; i += 4) {
            __builtin_prefetch(memory + i + 64, 0, 0);
            __builtin_prefetch(memory + i + 66, 0, 0);
            a += memory[i];
            b += memory[i + 1];
            c += memory[i + 2];
            d += memory[i + 3];
        }
        a += b + c + d;
        for (int k = 0; k < 8; k++) total += a[k];
    }
    sink = total;
    return vectors * sizeof(vector);
}

#define LOOP(count)                                                                                                  \
    size_t first, last;                                                                                              \
    part((count), &first, &last);                                                                                    \
    for (size_t i = first; i < last; i++)

static size_t copy_plain(void)
{
    vector *from = memory, *to = target;
#pragma omp parallel
    {
        LOOP(vectors / 2) to[i] = from[i];
    }
    return vectors * sizeof(vector);
}

static size_t copy_stream(void)
{
    vector *from = memory, *to = target;
#pragma omp parallel
    {
        LOOP(vectors / 2) STREAM(to + i, from[i]);
    }
    return vectors * sizeof(vector);
}

static size_t triad_plain(void)
{
    size_t third = vectors / 2;
    vector *a = memory, *b = memory + third, *c = target;
#pragma omp parallel
    {
        LOOP(third) c[i] = a[i] + 3.0f * b[i];
    }
    return 3 * third * sizeof(vector);
}

static size_t triad_stream(void)
{
    size_t third = vectors / 2;
    vector *a = memory, *b = memory + third, *c = target;
#pragma omp parallel
    {
        LOOP(third) STREAM(c + i, a[i] + 3.0f * b[i]);
    }
    return 3 * third * sizeof(vector);
}

static size_t write_plain(void)
{
    vector value = {1, 2, 3, 4, 5, 6, 7, 8};
#pragma omp parallel
    {
        LOOP(vectors / 2) target[i] = value;
    }
    return vectors / 2 * sizeof(vector);
}

static size_t write_stream(void)
{
    vector value = {1, 2, 3, 4, 5, 6, 7, 8};
#pragma omp parallel
    {
        LOOP(vectors / 2) STREAM(target + i, value);
    }
    return vectors / 2 * sizeof(vector);
}

static const struct {
    const char *name;
    size_t (*run)(void);
} kernels[] = {
    {"read-sum", read_sum},         {"read-two", read_two},         {"read-ahead", read_ahead},
    {"copy-plain", copy_plain},     {"copy-stream", copy_stream},   {"triad-plain", triad_plain},
    {"triad-stream", triad_stream}, {"write-plain", write_plain},   {"write-stream", write_stream},
};

/* Random floats between 1 and 2, written by the threads that read them. */
static void fill(vector *words, size_t count)
{
#pragma omp parallel
    {
        uint64_t state = 0x9E3779B97F4A7C15u * (omp_get_thread_num() + 1);
        LOOP(count) for (int k = 0; k < 8; k++)
        {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((uint32_t *)words)[i * 8 + k] = 0x3F800000u | (uint32_t)(state >> 41);
        }
    }
}

static vector *filled(size_t bytes)
{
    vector *words = aligned_alloc(1 << 21, bytes);
    if (!words) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(words, bytes, MADV_HUGEPAGE);
#endif
    fill(words, bytes / sizeof(vector));
    return words;
}

/* Have `mib` MiB to read (a multiple of 4) and half as much to write; how many kernels there are, 0 without memory. */
int stream_open(size_t mib, int threads)
{
    omp_set_num_threads(threads);
    vectors = (mib << 20) / sizeof(vector);
    memory = filled(mib << 20);
    target = filled(mib << 19);
    return memory && target ? (int)(sizeof kernels / sizeof *kernels) : 0;
}

const char *stream_name(int kernel)
{
    return kernels[kernel].name;
}

int stream_is_plain(void)
{
#ifdef STREAM_IS_PLAIN
    return 1;
#else
    return 0;
#endif
}

/* Run a kernel once: the bytes that it moved. */
double stream_run(int kernel)
{
    return (double)kernels[kernel].run();
}
