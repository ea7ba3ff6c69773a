/* The products of a dense net's layers, for one kind of processor.

   dense_net.c includes this once for each kind, with NAME(x), LANES (numbers a register holds), WIDE and HIGH (a tile
   of a product is HIGH rows of WIDE registers, as many as a processor has room for) set. All matrices are row by row,
   and numbers of columns of what is written are multiples of 16. */

typedef float NAME(lane) __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int NAME(mark) __attribute__((vector_size(4 * LANES), aligned(4)));
#define V NAME(lane)
#define AT(place) (*(V *)(place))
#define GIVEN(place) (*(const V *)(place))
#define ABOVE_ZERO(values, by) ((V)((NAME(mark))(values) & ((by) > 0)))
#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

/* One tile of c = a b + bias. */
INLINE void NAME(multiply_tile)(const int high, const int wide, long k, long n, const float *a, const float *b,
                                const float *bias, const float *open, int relu, float *c)
{
    V sum[HIGH][WIDE];
    UNROLL for (int r = 0; r < high; r++)
        UNROLL for (int v = 0; v < wide; v++)
            sum[r][v] = bias ? GIVEN(bias + v * LANES) : (V){0};
    for (long i = 0; i < k; i++) {
        V line[WIDE];
        UNROLL for (int v = 0; v < wide; v++)
            line[v] = GIVEN(b + i * n + v * LANES);
        UNROLL for (int r = 0; r < high; r++)
            UNROLL for (int v = 0; v < wide; v++)
                sum[r][v] += a[r * k + i] * line[v];
    }
    UNROLL for (int r = 0; r < high; r++)
        UNROLL for (int v = 0; v < wide; v++) {
            const long at = r * n + v * LANES;
            V value = relu ? ABOVE_ZERO(sum[r][v], sum[r][v]) : sum[r][v];
            AT(c + at) = open ? ABOVE_ZERO(value, GIVEN(open + at)) : value;
        }
}

/* One tile of c = keep c + a' f. */
INLINE void NAME(gather_tile)(const int high, const int wide, long m, long k, long n, const float *a, const float *f,
                              float keep, float *c)
{
    V sum[HIGH][WIDE];
    UNROLL for (int r = 0; r < high; r++)
        UNROLL for (int v = 0; v < wide; v++)
            sum[r][v] = keep * AT(c + r * n + v * LANES);
    for (long i = 0; i < m; i++) {
        V line[WIDE];
        UNROLL for (int v = 0; v < wide; v++)
            line[v] = GIVEN(f + i * n + v * LANES);
        UNROLL for (int r = 0; r < high; r++)
            UNROLL for (int v = 0; v < wide; v++)
                sum[r][v] += a[i * k + r] * line[v];
    }
    UNROLL for (int r = 0; r < high; r++)
        UNROLL for (int v = 0; v < wide; v++)
            AT(c + r * n + v * LANES) = sum[r][v];
}

/* Some columns of c = where a differs, times b, + bias. */
INLINE void NAME(multiply_few_tile)(const int wide, const Few *a, long m, long n, const float *b, const float *bias,
                                    int relu, float *c)
{
    for (long r = 0; r < m; r++) {
        V sum[8];
        UNROLL for (int v = 0; v < wide; v++)
            sum[v] = GIVEN(bias + v * LANES);
        for (int i = a->from_row[r]; i < a->from_row[r + 1]; i++)
            UNROLL for (int v = 0; v < wide; v++)
                sum[v] += a->more[i] * GIVEN(b + a->column[i] * n + v * LANES);
        UNROLL for (int v = 0; v < wide; v++)
            AT(c + r * n + v * LANES) = relu ? ABOVE_ZERO(sum[v], sum[v]) : sum[v];
    }
}

/* Some columns of c = c + where a differs, transposed, times f. */
INLINE void NAME(gather_few_tile)(const int wide, const Few *a, long m, long k, long n, const float *f, float *c)
{
    const int *from = a->from_column;
    for (long at = 0; at < m; at += BLOCK)
        for (long r = 0; r < k; r++, from++) {
            if (from[0] == from[1]) continue;
            V sum[8];
            UNROLL for (int v = 0; v < wide; v++)
                sum[v] = AT(c + r * n + v * LANES);
            for (int i = from[0]; i < from[1]; i++)
                UNROLL for (int v = 0; v < wide; v++)
                    sum[v] += a->more_down[i] * GIVEN(f + a->row[i] * n + v * LANES);
            UNROLL for (int v = 0; v < wide; v++)
                AT(c + r * n + v * LANES) = sum[v];
        }
}

/* `work` for all columns, as many registers at a time as there are left to fill. */
#define FOR_COLUMNS(n, work)                                       \
    for (long at = 0; at < (n);) {                                 \
        const long left = ((n) - at) / LANES;                      \
        if (left >= 4 && WIDE >= 4) { work(4) at += 4 * LANES; }   \
        else if (left >= 2) { work(2) at += 2 * LANES; }           \
        else { work(1) at += LANES; }                              \
    }

/* c = a b + bias; then zero where below zero, if asked, and zero where `open` is not above zero, if given. */
static void NAME(multiply)(long m, long k, long n, const float *a, const float *b, const float *bias,
                           const float *open, int relu, float *c)
{
#define ROWS(wide)                                                                                                    \
    long r = 0;                                                                                                       \
    for (; r + HIGH <= m; r += HIGH)                                                                                  \
        NAME(multiply_tile)(HIGH, wide, k, n, a + r * k, b + at, bias ? bias + at : 0, open ? open + r * n + at : 0,  \
                            relu, c + r * n + at);                                                                    \
    for (; r < m; r++)                                                                                                \
        NAME(multiply_tile)(1, wide, k, n, a + r * k, b + at, bias ? bias + at : 0, open ? open + r * n + at : 0,     \
                            relu, c + r * n + at);
    FOR_COLUMNS(n, ROWS)
#undef ROWS
}

/* c = keep c + a' f. */
static void NAME(gather)(long m, long k, long n, const float *a, const float *f, float keep, float *c)
{
#define ROWS(wide)                                                                              \
    long r = 0;                                                                                 \
    for (; r + HIGH <= k; r += HIGH)                                                            \
        NAME(gather_tile)(HIGH, wide, m, k, n, a + r, f + at, keep, c + r * n + at);            \
    for (; r < k; r++)                                                                          \
        NAME(gather_tile)(1, wide, m, k, n, a + r, f + at, keep, c + r * n + at);
    FOR_COLUMNS(n, ROWS)
#undef ROWS
}

static void NAME(multiply_few)(const Few *a, long m, long k, long n, const float *b, const float *bias, int relu,
                               float *room, float *c)
{
    for (long i = 0; i < n; i++) room[i] = bias[i];
    for (long r = 0; r < k; r++)
        for (long i = 0; i < n; i++) room[i] += a->usual[r] * b[r * n + i];
#define COLUMNS(wide) NAME(multiply_few_tile)(wide, a, m, n, b + at, room + at, relu, c + at);
    long at = 0;
    for (; at + 8 * LANES <= n; at += 8 * LANES) { COLUMNS(8) }
    for (; at < n; at += LANES) { COLUMNS(1) }
#undef COLUMNS
}

static void NAME(gather_few)(const Few *a, long m, long k, long n, const float *f, const float *sums, float keep,
                             float *c)
{
    for (long r = 0; r < k; r++)
        for (long i = 0; i < n; i++) c[r * n + i] = keep * c[r * n + i] + a->usual[r] * sums[i];
#define COLUMNS(wide) NAME(gather_few_tile)(wide, a, m, k, n, f + at, c + at);
    long at = 0;
    for (; at + 8 * LANES <= n; at += 8 * LANES) { COLUMNS(8) }
    for (; at < n; at += LANES) { COLUMNS(1) }
#undef COLUMNS
}

INLINE void NAME(add_rows_tile)(const int wide, long m, long n, const float *f, float *sums)
{
    V sum[8];
    UNROLL for (int v = 0; v < wide; v++)
        sum[v] = (V){0};
    for (long r = 0; r < m; r++)
        UNROLL for (int v = 0; v < wide; v++)
            sum[v] += GIVEN(f + r * n + v * LANES);
    UNROLL for (int v = 0; v < wide; v++)
        AT(sums + v * LANES) = sum[v];
}

/* The sums of f's columns. */
static void NAME(add_rows)(long m, long n, const float *f, float *sums)
{
    long at = 0;
    for (; at + 4 * LANES <= n; at += 4 * LANES) NAME(add_rows_tile)(4, m, n, f + at, sums + at);
    for (; at < n; at += LANES) NAME(add_rows_tile)(1, m, n, f + at, sums + at);
}

/* Zero where `by` is not above zero. */
static void NAME(close)(long count, const float *by, float *values)
{
    for (long at = 0; at < count; at += LANES) AT(values + at) = ABOVE_ZERO(AT(values + at), GIVEN(by + at));
}

static const Products NAME(products) = {
    NAME(multiply), NAME(multiply_few), NAME(gather), NAME(gather_few), NAME(add_rows), NAME(close),
};

#undef NAME
#undef LANES
#undef WIDE
#undef HIGH
#undef V
#undef AT
#undef GIVEN
#undef ABOVE_ZERO
#undef UNROLL
#undef INLINE
#undef FOR_COLUMNS
