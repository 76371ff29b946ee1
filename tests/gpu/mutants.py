"""Do the tests see a wrong kernel, or a missing order between streams? mutants.py BUILD [WORD...], or --check

Breaks one place of the sources after the other, those whose file or text has a WORD, builds and runs the tests that are to
find it, and mends it again. Exits with 1 where one was not found. Not listed is what changes no result. --check looks
whether each still applies, and builds nothing."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = "shared/ops/"
BARRIER = "__syncthreads();"
# The test program and its filter -> (source, text that is there once, text in its place)
KERNELS, ORDERS = "gpu_test_on_fake_device OpsOnGpu.", "fake_device_test Streams.*:TwoRanks*"
MUTANTS = {
    KERNELS + "Matcher*": [
        ("matcher_cuda.cu", f"T (*tile)[4]) {{\n  {BARRIER}", "T (*tile)[4]) {"),
        ("matcher_cuda.cu", "const bool real = p.match != nullptr;\n", "const bool real = p.match != nullptr;\n  if (!real) return;\n"),
        ("matcher_cuda.cu", "place.a >= m.anchor_count", "place.a > m.anchor_count"),
        ("matcher_cuda.cu", "distance = 16", "distance = 8"),
        ("matcher_cuda.cu", "value > T(0) && value == ", "value == "),
        ("matcher_cuda.cu", "blocks_for(m.anchor_count, kThreads)", "static_cast<unsigned>(m.anchor_count / kThreads)"),
        ("launch_cuda.cuh", "atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(value));", "if (*target < value) *target = value;")],
    KERNELS + "Atss*": [
        ("atss_cuda.cu", f"lanes[threadIdx.x] = value;\n  {BARRIER}", "lanes[threadIdx.x] = value;"),
        ("atss_cuda.cu", "if (threadIdx.x < a.level_count)", "if (threadIdx.x + 1 < a.level_count)"),
        ("atss_cuda.cu", "while (box >= a.offsets[image + 1])", "while (box > a.offsets[image + 1])"),
        ("atss_formulas.h", "place > 0 && distance < distances[place - 1]", "place > 0 && distance <= distances[place - 1]"),
        ("atss_formulas.h", "if (!is_whole) continue;", "")],
    KERNELS + "Partial*": [
        ("matcher_cuda.cu", "anchor < p.anchor_count", "anchor + 1 < p.anchor_count"),
        ("box_formulas.h", "width * height >= ", "width * height > "),
        ("box_formulas.h", "g = p.offsets[image];", "g = p.offsets[0];")],
    KERNELS + "Nms*": [
        ("nms_cuda.cu", f"dropped[w] = 0;\n  {BARRIER}", "dropped[w] = 0;"),
        ("nms_cuda.cu", "j >= n.count", "j > n.count"),
        ("nms_cuda.cu", "static_cast<double>(iou) > n.iou_threshold", "iou > static_cast<T>(n.iou_threshold)")],
    KERNELS + "Losses*": [
        ("head_losses_cuda.cu", f"sums[threadIdx.x + half];\n    {BARRIER}", "sums[threadIdx.x + half];"),
        ("head_losses_cuda.cu", "if (threadIdx.x == 0) sums[blockIdx.x]", "sums[blockIdx.x]"),
        ("head_losses_cuda.cu", "store(T(0), gradient);\n      continue;", "continue;"),
        ("head_losses_cuda.cu", "while (anchor >= head", "if (anchor >= head"),
        ("head_losses_cuda.cu", "const AnchorPlace box = {anchor, match, image};", "const AnchorPlace box = {anchor, match, 0};")],
    KERNELS + "Dropout*": [("dropout_cuda.cu", "put_dropout(d, blockIdx.y,", "put_dropout(d, 0,")],
    KERNELS + "Images*": [
        ("prepare_images_cuda.cu", "pixel >= pixels", "pixel > pixels"),
        ("prepare_images_cuda.cu", "p.rows[blockIdx.y]", "p.rows[0]")],
    KERNELS + "BiasRelu*": [
        ("bias_relu_cuda.cu", "place >= b.count", "place > b.count"),
        ("bias_relu_cuda.cu", "is_aligned_to_packs(b.values) &&", "true &&"),
        ("bias_relu_cuda.cu", f"= thread_sums[v];\n  {BARRIER}", "= thread_sums[v];"),
        ("bias_relu_cuda.cu", "if (sums.are_whole) b.bias_gradient", "b.bias_gradient"),
        ("formulas.h", "y <= T(0) ? T(0) : output_gradient", "y > T(0) ? output_gradient : T(0)")],
    KERNELS + "*Norm*": [
        ("batch_norm_cuda.cu", "squares += shift * (2 * sum + share.count * shift);", "squares += shift * 2 * sum;"),
        ("channel_sums.cuh", "first < end", "first <= end"),
        ("channel_sums.cuh", "half >= kSlots; half /= 2", "half > kSlots; half /= 2"),
        ("channel_sums.cuh", f"sums[s][threadIdx.x] = out.values[s];\n  {BARRIER}", "sums[s][threadIdx.x] = out.values[s];")],
    "fake_device_test WideCounts.*": [
        ("bias_relu_cuda.cu", "const std::int64_t number = ", "const int number = "),
        ("head_losses_cuda.cu", "const std::int64_t place = head.levels[level].place(image, anchor", "const int place = head.levels[level].place(image, anchor"),
        ("head_losses_cuda.cu", "total * blockIdx.x / gridDim.x",
         "static_cast<int>(total) * static_cast<int>(blockIdx.x) / static_cast<int>(gridDim.x)")],
    ORDERS: [
        ("image_upload.cpp", "under_way_.push_back({std::move(done), batch.stored});", ""),
        ("image_upload.cpp", "&& under_way_.front().done.query()", ""),
        ("../../train/step/step_clock.cpp", "marks.back().event->synchronize()", "marks.front().event->synchronize()"),
        ("../../train/reduce/nccl_transport.cpp", 'check_cuda(cudaEventRecord(filled_[number], compute), "cudaEventRecord");', ""),
        ("../../train/reduce/nccl_transport.cpp", "cudaEventQuery(filled_[number])", "cudaEventQuery(filled_[0])"),
        ("../../train/reduce/nccl_transport.cpp", "    stream_.synchronize();\n", ""),
        ("../../train/reduce/gradient_buckets.cpp", "    queue_->wait();\n", ""),
        ("dispatch.h", "device.getStream(tensor.device()).native_handle()", "device.getNewStream(tensor.device()).native_handle()")],
}


def what_finds(build, tests, path, old, new):
    """The first line that tells of it, or None."""
    program, tests = tests.split()
    whole = path.read_text()
    path.write_text(whole.replace(old, new))
    try:
        subprocess.run(["cmake", "--build", build, "--target", program], check=True, capture_output=True)
        done = subprocess.run([build / "bin" / program, f"--gtest_filter={tests}", "--gtest_fail_fast"],
                              capture_output=True, text=True, timeout=1200, check=False)
    finally:
        path.write_text(whole)
    lines = [line for line in done.stdout.splitlines() if "SEED=" in line or "Failure" in line]
    return (lines or [f"exit code {done.returncode}"])[0] if done.returncode else None


def applies(path, old):
    assert path.read_text().count(old) == 1, f"{path.name} has this {path.read_text().count(old)} times: {old}"


def main(build, *words):
    missed = 0
    for tests, rows in MUTANTS.items():
        for source, old, new in rows:
            if words and not any(word in source or word in old for word in words):
                continue
            applies(ROOT / OPS / source, old)
            if build == "--check":
                continue
            found = what_finds(pathlib.Path(build).resolve(), tests, ROOT / OPS / source, old, new)
            missed += found is None
            print(f"{source}: {old!r} -> {new!r}: {found or 'NOT FOUND'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
