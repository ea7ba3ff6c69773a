/* A dense net's layers forwards and backwards for one batch of rows, on one thread; compiled_layers.py calls it.

   Libraries multiply such small matrices more slowly than a processor can, and spend time on columns that hold the
   same in nearly all rows, which images and one-hot columns are full of. */

/* A matrix by what its columns usually hold and by how much it differs from that where it does: row by row, and once
   more for each BLOCK of rows column by column. */
#define BLOCK 64
typedef struct {
    const float *usual; /* (columns) */
    int *from_row;      /* (rows + 1): where each row begins in the next two */
    int *column;
    float *more;
    int *from_column; /* (blocks x columns + 1): where each column of a block begins in the next two */
    int *row;
    float *more_down;
} Few;

typedef struct {
    void (*multiply)(long m, long k, long n, const float *a, const float *b, const float *bias, const float *open,
                     int relu, float *c);
    void (*multiply_few)(const Few *a, long m, long k, long n, const float *b, const float *bias, int relu, float *room,
                         float *c);
    void (*gather)(long m, long k, long n, const float *a, const float *f, float keep, float *c);
    void (*gather_few)(const Few *a, long m, long k, long n, const float *f, const float *sums, float keep, float *c);
    void (*add_rows)(long m, long n, const float *f, float *sums);
    void (*close)(long count, const float *by, float *values);
} Products;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KINDS_OF_X86
#pragma GCC push_options
#pragma GCC target("arch=skylake-avx512")
#define NAME(x) x##_512
#define LANES 16
#define WIDE 4
#define HIGH 6
#include "dense_lanes.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=haswell")
#define NAME(x) x##_256
#define LANES 8
#define WIDE 2
#define HIGH 6
#include "dense_lanes.h"
#pragma GCC pop_options
#endif
#define NAME(x) x##_128
#define LANES 4
#define WIDE 2
#define HIGH 4
#include "dense_lanes.h"

/* Take products of at most so many lanes, as many as this processor has among them; returns how many. */
static const Products *products;
int use_lanes(int most)
{
#ifdef KINDS_OF_X86
    if (most >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
        products = &products_512;
        return 16;
    }
    if (most >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        products = &products_256;
        return 8;
    }
#endif
    (void)most;
    products = &products_128;
    return 4;
}

int rows_of_block(void) { return BLOCK; }

/* Fill in where a matrix of m rows and k columns differs from what they usually hold. What does not differ is written
   too, without going on to the next place, so that nothing has to be guessed ahead; hence room for one more. */
void find_few(long m, long k, const float *x, Few *few)
{
    int found = 0;
    for (long r = 0; r < m; r++) {
        few->from_row[r] = found;
        for (long i = 0; i < k; i++) {
            few->column[found] = i;
            few->more[found] = x[r * k + i] - few->usual[i];
            found += x[r * k + i] != few->usual[i];
        }
    }
    few->from_row[m] = found;
    int *from = few->from_column;
    found = 0;
    for (long at = 0; at < m; at += BLOCK)
        for (long i = 0; i < k; i++) {
            *from++ = found;
            for (long r = at; r < m && r < at + BLOCK; r++) {
                few->row[found] = r;
                few->more_down[found] = x[r * k + i] - few->usual[i];
                found += x[r * k + i] != few->usual[i];
            }
        }
    *from = found;
}

/* Numbers of outputs are multiples of 16, and so are numbers of inputs but for the first layer's. */
typedef struct {
    long inputs, outputs;
    float *matrix, *bias;       /* (inputs, outputs), (outputs) */
    float *speed, *bias_speed;  /* their velocities */
    float *across;              /* room for the matrix as (outputs, inputs) */
    float *sums;                /* room for (outputs) */
    const float *given;         /* (rows, inputs) */
    Few few;                    /* the same, where few differ from what their columns usually hold; else usual is null */
    float *made;                /* (rows, outputs) */
    float *by_given;            /* room for the loss's gradient by what was given; not for the first layer */
    int relu;                   /* whether what is made is zero where it would be below zero */
} Layer;

void forwards(const Layer *layers, int count, long rows)
{
    for (const Layer *one = layers; one < layers + count; one++)
        if (one->few.usual)
            products->multiply_few(&one->few, rows, one->inputs, one->outputs, one->matrix, one->bias, one->relu,
                                   one->sums, one->made);
        else
            products->multiply(rows, one->inputs, one->outputs, one->given, one->matrix, one->bias, 0, one->relu,
                               one->made);
}

/* Given the loss's gradient by what the last layer made, which is written over: velocity = momentum velocity + gradient. */
void backwards(const Layer *layers, int count, long rows, float *flow, float momentum)
{
    const Layer *last = layers + count - 1;
    if (last->relu) products->close(rows * last->outputs, last->made, flow);
    for (const Layer *one = last; one >= layers; one--) {
        products->add_rows(rows, one->outputs, flow, one->sums);
        for (long i = 0; i < one->outputs; i++) one->bias_speed[i] = momentum * one->bias_speed[i] + one->sums[i];
        if (one->few.usual)
            products->gather_few(&one->few, rows, one->inputs, one->outputs, flow, one->sums, momentum, one->speed);
        else
            products->gather(rows, one->inputs, one->outputs, one->given, flow, momentum, one->speed);
        if (one == layers) return;
        for (long i = 0; i < one->inputs; i++)
            for (long j = 0; j < one->outputs; j++) one->across[j * one->inputs + i] = one->matrix[i * one->outputs + j];
        products->multiply(rows, one->outputs, one->inputs, flow, one->across, 0, one->given, 0, one->by_given);
        flow = one->by_given;
    }
}
