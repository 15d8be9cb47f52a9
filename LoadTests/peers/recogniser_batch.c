// Measures what sherpa-onnx takes for several utterances one by one and in one call. Not the server:
// its library and its model, with the options that the server gives them. CPU of one thread, the least
// of three rounds.
//
//   lib=models/sherpa-onnx/lib
//   gcc -O2 -I models/sherpa-onnx/include LoadTests/peers/recogniser_batch.c -o .build/recogniser-batch
//       -L $lib -l sherpa-onnx-c-api -Wl,-rpath,"$PWD/$lib"
//   .build/recogniser-batch models /usr/share/pocketsphinx/test/data/librivox/*.wav

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sherpa-onnx/c-api/c-api.h"

enum { RATE = 16000, MAX_SAMPLES = 600 * RATE, WAV_HEADER = 44, MOST = 8, ROUNDS = 3 };

static float *samples;
static int sample_count;

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/// Appends a recording of 16-bit samples at 16 kHz.
static void read_recording(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, WAV_HEADER, SEEK_SET)) { perror(path); exit(1); }
    short sample;
    while (sample_count < MAX_SAMPLES && fread(&sample, sizeof sample, 1, file) == 1)
        samples[sample_count++] = sample / 32768.0f;
    fclose(file);
}

/// A file with the options of the ONNX runtime that the server uses (MoonshineModel.swift).
static void write_options(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) { perror(path); exit(1); }
    fputs("EnableCpuMemArena=0\nEnableMemPattern=0\n", file);
    fclose(file);
}

static const SherpaOnnxOfflineRecognizer *load(const char *models) {
    static char encoder[1024], decoder[1024], tokens[1024];
    snprintf(encoder, sizeof encoder, "%s/moonshine-base-en/encoder_model.onnx", models);
    snprintf(decoder, sizeof decoder, "%s/moonshine-base-en/decoder_model_merged.onnx", models);
    snprintf(tokens, sizeof tokens, "%s/moonshine-base-en/tokens.txt", models);
    write_options(".build/recogniser-batch-options");
    SherpaOnnxOfflineRecognizerConfig options;
    memset(&options, 0, sizeof options);
    options.feat_config.sample_rate = RATE;
    options.feat_config.feature_dim = 80;
    options.model_config.moonshine.encoder = encoder;
    options.model_config.moonshine.merged_decoder = decoder;
    options.model_config.tokens = tokens;
    options.model_config.num_threads = 1;
    options.model_config.provider = "cpu:.build/recogniser-batch-options";
    options.decoding_method = "greedy_search";
    return SherpaOnnxCreateOfflineRecognizer(&options);
}

/// CPU seconds for so many utterances, from different places of the recordings.
static double decode(
    const SherpaOnnxOfflineRecognizer *recogniser, int count, int seconds, int in_one_call) {
    const SherpaOnnxOfflineStream *streams[MOST];
    int room = sample_count - seconds * RATE;
    for (int i = 0; i < count; i++) {
        streams[i] = SherpaOnnxCreateOfflineStream(recogniser);
        int start = (int)((long)i * 414400 % room);
        SherpaOnnxAcceptWaveformOffline(streams[i], RATE, samples + start, seconds * RATE);
    }
    double begin = cpu_seconds();
    if (in_one_call) SherpaOnnxDecodeMultipleOfflineStreams(recogniser, streams, count);
    else for (int i = 0; i < count; i++) SherpaOnnxDecodeOfflineStream(recogniser, streams[i]);
    double spent = cpu_seconds() - begin;
    for (int i = 0; i < count; i++) SherpaOnnxDestroyOfflineStream(streams[i]);
    return spent;
}

int main(int argc, char **argv) {
    if (argc < 3) { fprintf(stderr, "usage: %s MODELS WAV...\n", argv[0]); return 2; }
    samples = malloc(MAX_SAMPLES * sizeof *samples);
    for (int i = 2; i < argc; i++) read_recording(argv[i]);
    if (sample_count <= MOST * RATE) { fputs("there is too little speech\n", stderr); return 1; }
    double begin = cpu_seconds();
    const SherpaOnnxOfflineRecognizer *recogniser = load(argv[1]);
    if (!recogniser) return 1;
    printf("loaded in %.2f s of CPU\n", cpu_seconds() - begin);
    printf("| utterances | seconds each | one by one, ms | in one call, ms |\n|---|---|---|---|\n");
    for (int seconds = 1; seconds <= 8; seconds *= 2)
        for (int count = 1; count <= MOST; count *= 2) {
            double least[2] = {1e9, 1e9};
            for (int round = 0; round < ROUNDS; round++)
                for (int way = 0; way < 2; way++) {
                    double spent = decode(recogniser, count, seconds, way);
                    if (spent < least[way]) least[way] = spent;
                }
            printf("| %d | %d | %.0f | %.0f |\n", count, seconds, least[0] * 1e3, least[1] * 1e3);
            fflush(stdout);
        }
    SherpaOnnxDestroyOfflineRecognizer(recogniser);
    free(samples);
    return 0;
}
