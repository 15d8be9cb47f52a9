// The AudioWorklet that records: it collects the microphone's blocks of 128 samples into 16-bit
// pieces of 20 ms, which it posts to audio.js. It runs on the audio thread.

class CaptureProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.size = sampleRate / 50;
    this.samples = new Int16Array(this.size);
    this.filled = 0;
  }

  process(inputs) {
    const channel = inputs[0][0];
    if (!channel) return true;
    for (const value of channel) {
      const clamped = Math.max(-1, Math.min(1, value));
      this.samples[this.filled++] = Math.round(clamped * 32767);
      if (this.filled === this.size) {
        this.port.postMessage(this.samples.buffer, [this.samples.buffer]);
        this.samples = new Int16Array(this.size);
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", CaptureProcessor);
