/* The floor of tarresize: decode, resize by area and encode every JPEG of a plain archive, in YCbCr
 * planes, with nothing else around it. `codec ARCHIVE SIZE [I N]`, compiled by the bench with cc; with I and N
 * only every N-th, from the I-th on.
 * No errors are handled and only 4:2:0 and 4:4:4 come its way. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

/* Which inputs make an output, and how much of each. */
struct span { int first, count; float *weights; };

static struct span *spans(int n, int m) {
  struct span *all = malloc(sizeof *all * m);
  for (int i = 0; i < m; i++) {
    double from = (double)i * n / m, to = (double)(i + 1) * n / m;
    int last = fmin(ceil(to), n);
    all[i] = (struct span){from, last - (int)from, malloc(sizeof(float) * (last - (int)from))};
    for (int k = all[i].first; k < last; k++)
      all[i].weights[k - all[i].first] = (fmin(to, k + 1) - fmax(from, k)) * m / n;
  }
  return all;
}

static void release(struct span *all, int m) {
  for (int i = 0; i < m; i++) free(all[i].weights);
  free(all);
}

/* Rows are summed with their weights first, then columns. */
static void area(const unsigned char *in, int w, int h, unsigned char *out, int ow, int oh) {
  float *sums = malloc(sizeof *sums * w);
  struct span *down = spans(h, oh), *across = spans(w, ow);
  for (int y = 0; y < oh; y++) {
    memset(sums, 0, sizeof *sums * w);
    for (int k = 0; k < down[y].count; k++) {
      const unsigned char *row = in + (long)(down[y].first + k) * w;
      for (int x = 0; x < w; x++) sums[x] += down[y].weights[k] * row[x];
    }
    for (int x = 0; x < ow; x++) {
      float sum = 0.5f;
      for (int k = 0; k < across[x].count; k++) sum += across[x].weights[k] * sums[across[x].first + k];
      out[(long)y * ow + x] = sum;
    }
  }
  release(down, oh);
  release(across, ow);
  free(sums);
}

static unsigned long resize(tjhandle decoder, tjhandle encoder, unsigned char *jpeg, unsigned long bytes, int size) {
  int w, h, subsampling, space;
  tjDecompressHeader3(decoder, jpeg, bytes, &w, &h, &subsampling, &space);
  int small = w < h ? w : h, ow = rint((double)w * size / small), oh = rint((double)h * size / small);
  unsigned char *in[3], *out[3], *made = NULL;
  unsigned long length = 0;
  for (int i = 0; i < 3; i++) {
    in[i] = malloc(tjPlaneSizeYUV(i, w, 0, h, subsampling));
    out[i] = malloc(tjPlaneSizeYUV(i, ow, 0, oh, subsampling));
  }
  tjDecompressToYUVPlanes(decoder, jpeg, bytes, in, w, NULL, h, 0);
  for (int i = 0; i < 3; i++)
    area(in[i], tjPlaneWidth(i, w, subsampling), tjPlaneHeight(i, h, subsampling), out[i],
         tjPlaneWidth(i, ow, subsampling), tjPlaneHeight(i, oh, subsampling));
  tjCompressFromYUVPlanes(encoder, (const unsigned char **)out, ow, NULL, oh, subsampling, &made, &length, 95, 0);
  tjFree(made);
  for (int i = 0; i < 3; i++) free(in[i]), free(out[i]);
  return length;
}

int main(int argc, char **argv) {
  FILE *archive = fopen(argv[1], "rb");
  int size = atoi(argv[2]), i = argc > 3 ? atoi(argv[3]) : 0, n = argc > 4 ? atoi(argv[4]) : 1;
  tjhandle decoder = tjInitDecompress(), encoder = tjInitCompress();
  unsigned char header[512], *jpeg = malloc(16 << 20);
  unsigned long written = 0;
  for (int at = 0; fread(header, 512, 1, archive) == 1 && header[0]; at++) {
    unsigned long bytes = strtoul((char *)header + 124, NULL, 8);
    if (fread(jpeg, 1, (bytes + 511) / 512 * 512, archive) == 0) break;
    if (at % n == i) written += resize(decoder, encoder, jpeg, bytes, size);
  }
  printf("%lu bytes\n", written);
  return 0;
}
