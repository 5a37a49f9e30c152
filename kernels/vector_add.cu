// The one kernel. The lines between the markers are what every path compiles, character for character, wrapped in
// `extern "C" { ... }`. n is not a multiple of the block size, so that the bounds check is live.

// snippet: kernel
__global__ void vectorAdd(const float* a, const float* b, float* out, unsigned long long n)
{
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] + b[i];
    }
}
// end snippet
